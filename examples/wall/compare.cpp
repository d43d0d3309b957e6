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

constexpr double settled_spread = 0.15;

/// Half of the values lie in a range so wide, in parts of the median.
double spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t quarter = values.size() / 4;
  return (values[values.size() - 1 - quarter] - values[quarter]) / median(values);
}

/// One kind of work: a prompt alone, or tokens of several sequences.
struct Cell {
  std::size_t weights = 0;  ///< index in the list
  int prompt = 0;
  int sequences = 0;  ///< 0: the prompt
  std::unique_ptr<PromptBench> reading = nullptr;
  std::unique_ptr<BatchBench> decoding = nullptr;
  std::vector<double> forecasts{};  ///< tokens per second, a round each
  std::vector<double> rounds{};     ///< measured

  double measure(const std::stop_token& stop) const {
    return sequences == 0 ? reading->speed(stop) : decoding->speed(stop);
  }
  double forecast() const { return median(forecasts); }
  double measured() const { return median(rounds); }
  double error() const { return forecast() / measured() - 1; }
  bool settled() const { return std::max(spread_of(rounds), spread_of(forecasts)) < settled_spread; }
  std::string name(int generate) const {
    return sequences == 0 ? print("prefill %d", prompt)
                          : print("decode %d after %d, batch %d", generate, prompt, sequences);
  }
};

void print_errors(std::vector<double> errors) {
  for (double& e : errors) e = std::abs(e);
  std::printf("largest error %.0f %%, median %.0f %%\n\n", 100 * *std::max_element(errors.begin(), errors.end()),
              100 * median(errors));
}

void print_cells(const std::vector<Cell>& cells, const WallOptions& options) {
  std::printf("| tokens/s | forecast | measured | error | rounds | spread of forecasts, of measurements |\n");
  std::printf("|---|---|---|---|---|---|\n");
  std::vector<double> errors;
  for (const Cell& cell : cells) {
    const std::string weights = options.weights.size() > 1 ? ", " + options.weights[cell.weights] : std::string();
    std::printf("| %s%s | %.1f | %.1f | %+.0f %% | %d | %.0f %%, %.0f %% |\n", cell.name(options.generate).c_str(),
                weights.c_str(), cell.forecast(), cell.measured(), 100 * cell.error(),
                static_cast<int>(cell.rounds.size()), 100 * spread_of(cell.forecasts), 100 * spread_of(cell.rounds));
    errors.push_back(cell.error());
  }
  print_errors(errors);
}

/// What each larger batch gains over the smaller ones, and each type of weights over those before it in the list.
void print_gains(const std::vector<Cell>& cells, const WallOptions& options) {
  std::vector<double> errors;
  const auto gain = [&](const Cell& to, const Cell& from, const std::string& move) {
    if (errors.empty()) std::printf("| move | forecast gain | measured gain | error |\n|---|---|---|---|\n");
    const double forecast = to.forecast() / from.forecast(), measured = to.measured() / from.measured();
    std::printf("| %s | %.2f | %.2f | %+.0f %% |\n", move.c_str(), forecast, measured, 100 * (forecast / measured - 1));
    errors.push_back(forecast / measured - 1);
  };
  for (const Cell& to : cells) {
    for (const Cell& from : cells) {
      if (to.prompt != from.prompt) continue;
      const std::string& weights = options.weights[to.weights];
      const std::string at = to.sequences == 0 ? print("prefill %d", to.prompt) : print("after %d", to.prompt);
      if (to.weights == from.weights && from.sequences > 0 && from.sequences < to.sequences) {
        const std::string as = options.weights.size() > 1 ? ", " + weights : std::string();
        gain(to, from, print("batch %d over %d, %s%s", to.sequences, from.sequences, at.c_str(), as.c_str()));
      } else if (to.weights > from.weights && to.sequences == from.sequences) {
        const std::string batch = to.sequences > 0 ? print(", batch %d", to.sequences) : std::string();
        const std::string& other = options.weights[from.weights];
        gain(to, from, print("%s over %s, %s%s", weights.c_str(), other.c_str(), at.c_str(), batch.c_str()));
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
    for (std::size_t i = 0; i < options_.weights.size(); ++i) add_cells(i);
    const auto any = [](const Cell&) { return true; };
    for (int round = 0; round < options_.rounds; ++round) measure(round > 0, any);
    // What the machine's moods have torn apart is repeated.
    for (int round = 0; round < options_.rounds / 2; ++round) {
      measure(true, [](const Cell& c) { return !c.settled(); });
    }
    std::printf("%s, %s, %s, %d threads\n", std::filesystem::path(options_.path).filename().c_str(),
                ceilings_.name.c_str(), ceilings_.isa.c_str(), ceilings_.threads);
    if (ceilings_.busy) std::printf("note: %s\n", llminfer::warning(ceilings_).c_str());
    print_cells(cells_, options_);
    print_gains(cells_, options_);
    return exit_ok;
  }

 private:
  void add_cells(std::size_t weights) {
    const llminfer::Model model = open_model(options_, device_, options_.weight_type(weights), stop_);
    for (const int prompt : options_.prompt) {
      cells_.push_back({weights, prompt, 0, std::make_unique<PromptBench>(model, prompt), nullptr, {}, {}});
      for (const int n : options_.batch) {
        const BatchRun run = {n, prompt, options_.generate};
        cells_.push_back({weights, prompt, n, nullptr, std::make_unique<BatchBench>(model, run, stop_), {}, {}});
      }
    }
  }

  /// A calibration, then each wanted cell once, a few seconds later: a forecast is held against the machine that it was
  /// made of.
  template <class Wanted>
  void measure(bool calibrate, Wanted&& wanted) {
    if (std::none_of(cells_.begin(), cells_.end(), wanted)) return;
    if (calibrate) llminfer::calibrate_again(device_, ceilings_).value();
    const std::vector<double> forecasts = forecast();
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      if (!wanted(cells_[i])) continue;
      cells_[i].forecasts.push_back(forecasts[i]);
      cells_[i].rounds.push_back(cells_[i].measure(stop_));
    }
  }

  /// Of all cells.
  std::vector<double> forecast() const {
    std::vector<double> out;
    for (std::size_t i = 0; i < options_.weights.size(); ++i) {
      for (const int prompt : options_.prompt) {
        llminfer::Workload workload = options_.workload(prompt);
        workload.weight_type = options_.weight_type(i);
        const llminfer::Forecast all = llminfer::forecast(source_, ceilings_, workload).value();
        out.push_back(all.rows.front().prefill_tokens_per_s);
        for (const auto& row : all.rows) out.push_back(row.decode_tokens_per_s);
      }
    }
    return out;
  }

  const WallOptions& options_;
  const std::stop_token stop_;
  const llminfer::ModelSource source_;
  const llminfer::Device device_;
  llminfer::Ceilings ceilings_{};
  std::vector<Cell> cells_{};
};

}  // namespace

int compare(const WallOptions& options, const std::stop_token& stop) { return Comparison(options, stop).run(); }

}  // namespace examples
