// llminfer-wall MODEL --compare: forecasts beside measurements of the same work.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "../bench/batch.h"
#include "../bench/measure.h"
#include "../common/format.h"
#include "../common/program.h"
#include "options.h"

namespace examples {
namespace {

struct Line {
  std::string what{};
  double forecast = 0;
  double measured = 0;
  double error() const { return forecast / measured - 1; }
};

void print_table(const std::vector<Line>& lines) {
  std::printf("| tokens/s | forecast | measured | error |\n|---|---|---|---|\n");
  std::vector<double> errors;
  for (const Line& line : lines) {
    std::printf("| %s | %.1f | %.1f | %+.0f %% |\n", line.what.c_str(), line.forecast, line.measured,
                100 * line.error());
    errors.push_back(std::abs(line.error()));
  }
  std::printf("largest error %.0f %%, median %.0f %%\n", 100 * *std::max_element(errors.begin(), errors.end()),
              100 * median(errors));
}

}  // namespace

int compare(const WallOptions& options, const std::stop_token& stop) {
  const auto source = llminfer::ModelSource::file(options.path);
  const auto device = llminfer::Device::cpu({.threads = options.threads, .isa = options.isa}).value();
  std::vector<llminfer::WeightType> types = llminfer::weight_types(source).value();
  if (options.weight_type() != llminfer::WeightType::as_stored) types = {options.weight_type()};
  const llminfer::Ceilings ceilings = ceilings_of(options, device, types);
  if (ceilings.busy) std::printf("note: %s\n", llminfer::warning(ceilings).c_str());
  const llminfer::Model model = open_model(options, device, stop);
  std::vector<Line> lines;
  for (const int prompt : options.prompt) {
    const auto forecast = llminfer::forecast(source, ceilings, options.workload(prompt)).value();
    Line& prefill =
        lines.emplace_back(Line{print("prefill %d", prompt), forecast.rows.front().prefill_tokens_per_s, 0});
    std::vector<double> rounds;
    for (int r = 0; r < options.rounds; ++r) rounds.push_back(prefill_speed(model, prompt, stop));
    prefill.measured = median(rounds);
    for (const auto& row : forecast.rows) {
      rounds = batch_speeds(model, {row.sequences, prompt, options.generate}, options.rounds, stop);
      lines.push_back({print("decode %d after %d, batch %d", options.generate, prompt, row.sequences),
                       row.decode_tokens_per_s, median(rounds)});
    }
  }
  std::printf("%s, %s, %d threads\n", std::filesystem::path(options.path).filename().c_str(), ceilings.name.c_str(),
              ceilings.threads);
  print_table(lines);
  return exit_ok;
}

}  // namespace examples
