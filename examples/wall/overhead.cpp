// llminfer-wall MODEL --overhead: what recording costs, decoding with and without a profile in turn.
#include <cstdio>
#include <filesystem>

#include "../bench/batch.h"
#include "../bench/measure.h"
#include "../common/program.h"
#include "options.h"

namespace examples {

int overhead(const WallOptions& options, const std::stop_token& stop) {
  const auto source = llminfer::ModelSource::file(options.path);
  const auto device = llminfer::Device::cpu({.threads = options.threads, .isa = options.isa}).value();
  const auto ceilings = ceilings_of(options, device, types_of(source, options.weight_type()));
  const llminfer::Model model = open_model(options, device, options.weight_type(), stop);
  const auto profile = llminfer::Profile::open(model, {.ceilings = ceilings, .devices = {}}).value();
  std::printf("%s: decoding %d tokens after %d, medians of %d rounds each in turn\n",
              std::filesystem::path(options.path).filename().c_str(), options.generate, options.prompt.front(),
              options.rounds);
  std::printf("| sequences | recorded, tokens/s | not recorded | recording costs |\n|---|---|---|---|\n");
  for (const int sequences : options.batch) {
    const BatchRun run = {sequences, options.prompt.front(), options.generate};
    BatchBench plain(model, run, stop);
    BatchBench recorded(model, run, stop, profile);
    std::vector<double> with, without;
    for (int round = 0; round < options.rounds; ++round) {
      without.push_back(plain.speed(stop));
      with.push_back(recorded.speed(stop));
    }
    std::printf("| %d | %.1f | %.1f | %+.1f %% |\n", sequences, median(with), median(without),
                100 * (median(without) / median(with) - 1));
  }
  return exit_ok;
}

}  // namespace examples
