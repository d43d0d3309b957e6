// llminfer-wall MODEL --compare: forecasts beside measurements of the same work.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "../bench/batch.h"
#include "../bench/measure.h"
#include "../common/format.h"
#include "../common/program.h"
#include "options.h"

namespace examples {
namespace {

constexpr double settled_spread = 0.05;  // of the two best rounds

/// One kind of work: a prompt alone, or tokens of several sequences. Tokens per second.
struct Cell {
  std::string weights{};
  int prompt = 0;
  int sequences = 0;                       ///< 0: the prompt
  const llminfer::Model* model = nullptr;  ///< for the prompt
  std::unique_ptr<BatchBench> bench = nullptr;
  std::vector<double> rounds{};
  double forecast = 0;

  void measure(const std::stop_token& stop) {
    rounds.push_back(sequences == 0 ? prefill_speed(*model, prompt, stop) : bench->speed(stop));
    std::sort(rounds.rbegin(), rounds.rend());
  }
  double measured() const { return rounds.front(); }
  double spread() const { return 1 - median(rounds) / measured(); }
  bool settled() const { return rounds.size() > 1 && rounds[1] > (1 - settled_spread) * rounds[0]; }
  double error() const { return forecast / measured() - 1; }
  std::string name(int generate) const {
    const std::string what = sequences == 0 ? print("prefill %d", prompt)
                                            : print("decode %d after %d, batch %d", generate, prompt, sequences);
    return weights.empty() ? what : what + ", " + weights;
  }
};

void print_errors(std::vector<double> errors) {
  for (double& e : errors) e = std::abs(e);
  std::printf("largest error %.0f %%, median %.0f %%\n\n", 100 * *std::max_element(errors.begin(), errors.end()),
              100 * median(errors));
}

void print_cells(const std::vector<Cell>& cells, int generate) {
  std::printf("| tokens/s | forecast | measured | rounds, spread | error |\n|---|---|---|---|---|\n");
  std::vector<double> errors;
  for (const Cell& cell : cells) {
    std::printf("| %s | %.1f | %.1f | %d, %.0f %% | %+.0f %% |\n", cell.name(generate).c_str(), cell.forecast,
                cell.measured(), static_cast<int>(cell.rounds.size()), 100 * cell.spread(), 100 * cell.error());
    errors.push_back(cell.error());
  }
  print_errors(errors);
}

/// What each larger batch gains over the first, and each type of weights over the one before it in the list.
void print_gains(const std::vector<Cell>& cells) {
  std::vector<double> errors;
  const auto gain = [&](const Cell& to, const Cell& from, const std::string& move) {
    if (errors.empty()) std::printf("| move | forecast gain | measured gain | error |\n|---|---|---|---|\n");
    const double forecast = to.forecast / from.forecast, measured = to.measured() / from.measured();
    std::printf("| %s | %.2f | %.2f | %+.0f %% |\n", move.c_str(), forecast, measured, 100 * (forecast / measured - 1));
    errors.push_back(forecast / measured - 1);
  };
  for (const Cell& to : cells) {
    for (const Cell& from : cells) {
      if (to.prompt != from.prompt) continue;
      const std::string at = to.sequences == 0 ? print("prefill %d", to.prompt) : print("after %d", to.prompt);
      if (to.weights == from.weights && from.sequences > 0 && from.sequences < to.sequences) {
        const std::string weights = to.weights.empty() ? "" : ", " + to.weights;
        gain(to, from, print("batch %d over %d, %s%s", to.sequences, from.sequences, at.c_str(), weights.c_str()));
      } else if (&from < &to && to.weights != from.weights && to.sequences == from.sequences) {
        const std::string batch = to.sequences > 0 ? print(", batch %d", to.sequences) : "";
        gain(to, from, print("%s over %s, %s%s", to.weights.c_str(), from.weights.c_str(), at.c_str(), batch.c_str()));
      }
    }
  }
  if (!errors.empty()) print_errors(errors);
}

class Comparison {
 public:
  Comparison(const WallOptions& options, const std::stop_token& stop)
      : options_(options),
        stop_(stop),
        source_(llminfer::ModelSource::file(options.path)),
        device_(llminfer::Device::cpu({.threads = options.threads, .isa = options.isa}).value()) {}

  int run() {
    std::vector<llminfer::WeightType> types;
    for (std::size_t i = 0; i < options_.weights.size(); ++i) {
      for (const auto type : types_of(source_, options_.weight_type(i))) types.push_back(type);
    }
    ceilings_ = ceilings_of(options_, device_, types);
    models_.reserve(options_.weights.size());
    for (std::size_t i = 0; i < options_.weights.size(); ++i) add_cells(i);
    for (int round = 0; round < options_.rounds; ++round) measure(round > 0, false);
    for (int round = 0; round < options_.rounds; ++round) measure(true, true);
    forecast();
    std::printf("%s, %s, %s, %d threads; best of the rounds\n", std::filesystem::path(options_.path).filename().c_str(),
                ceilings_.name.c_str(), ceilings_.isa.c_str(), ceilings_.threads);
    if (ceilings_.busy) std::printf("note: %s\n", llminfer::warning(ceilings_).c_str());
    print_cells(cells_, options_.generate);
    print_gains(cells_);
    return exit_ok;
  }

 private:
  void add_cells(std::size_t weights) {
    models_.push_back(open_model(options_, device_, options_.weight_type(weights), stop_));
    const std::string name = options_.weights.size() > 1 ? options_.weights[weights] : std::string();
    for (const int prompt : options_.prompt) {
      cells_.push_back({name, prompt, 0, &models_.back(), nullptr, {}, 0});
      for (const int n : options_.batch) {
        const BatchRun run = {n, prompt, options_.generate};
        cells_.push_back({name, prompt, n, nullptr, std::make_unique<BatchBench>(models_.back(), run, stop_), {}, 0});
      }
    }
  }

  /// A calibration, then everything once, so that both meet the machine in the same moods; `open`: what has not
  /// settled.
  void measure(bool calibrate, bool open) {
    const auto wanted = [&](const Cell& cell) { return !open || !cell.settled(); };
    if (std::none_of(cells_.begin(), cells_.end(), wanted)) return;
    if (calibrate) llminfer::calibrate_again(device_, ceilings_).value();
    for (Cell& cell : cells_) {
      if (wanted(cell)) cell.measure(stop_);
    }
  }

  void forecast() {
    std::size_t cell = 0;
    for (std::size_t i = 0; i < options_.weights.size(); ++i) {
      for (const int prompt : options_.prompt) {
        llminfer::Workload workload = options_.workload(prompt);
        workload.weight_type = options_.weight_type(i);
        const llminfer::Forecast all = llminfer::forecast(source_, ceilings_, workload).value();
        cells_[cell++].forecast = all.rows.front().prefill_tokens_per_s;
        for (const auto& row : all.rows) cells_[cell++].forecast = row.decode_tokens_per_s;
      }
    }
  }

  const WallOptions& options_;
  const std::stop_token stop_;
  const llminfer::ModelSource source_;
  const llminfer::Device device_;
  llminfer::Ceilings ceilings_{};
  std::vector<llminfer::Model> models_{};  // never moved once a cell points to one
  std::vector<Cell> cells_{};
};

}  // namespace

int compare(const WallOptions& options, const std::stop_token& stop) { return Comparison(options, stop).run(); }

}  // namespace examples
