// llminfer-wall MODEL --plan: a forecast from metadata alone.
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "../common/format.h"
#include "../common/program.h"
#include "options.h"

namespace examples {

int plan(const WallOptions& options) {
  const auto source = llminfer::ModelSource::file(options.path);
  const int prompt = options.context > 0 ? options.context - options.generate : options.prompt.front();
  if (prompt < 1) throw UsageError("--context must be larger than --generate");
  const llminfer::Workload workload = options.workload(prompt);
  llminfer::Forecast forecast;
  if (options.device.empty()) {
    const auto device = llminfer::Device::cpu({.threads = options.threads, .isa = options.isa}).value();
    const std::vector<llminfer::WeightType> types = types_of(source, options.weight_type());
    forecast = llminfer::forecast(source, ceilings_of(options, device, types), workload).value();
  } else {
    forecast = llminfer::forecast(source, llminfer::DeviceDescription::file(options.device).value(), workload).value();
  }
  std::printf("%s on %s: prompts of %d tokens, %d generated\n", std::filesystem::path(options.path).filename().c_str(),
              forecast.device.c_str(), prompt, options.generate);
  std::printf("weights %s, activations %s, cache %s a token", bytes_text(forecast.weights).c_str(),
              bytes_text(forecast.activations).c_str(), bytes_text(forecast.kv_per_token).c_str());
  if (forecast.memory_available > 0) {
    std::printf("; %s of memory: %d sequences of %d tokens fit", bytes_text(forecast.memory_available).c_str(),
                forecast.largest_batch, prompt + options.generate);
  }
  std::printf("\n");
  if (forecast.knee > 0)
    std::printf("from %d sequences on arithmetic takes the time: larger batches gain little\n", forecast.knee);
  if (!forecast.calibrated) std::printf("the device's efficiencies are a guess\n");
  std::printf("%9s %14s %12s %12s %11s %10s  %s\n", "sequences", "prefill tok/s", "first token", "decode tok/s",
              "each tok/s", "memory", "bound by (prefill, decode)");
  for (const auto& row : forecast.rows) {
    std::printf("%9d %14.0f %10.3f s %12.1f %11.1f %10s  %s, %s%s\n", row.sequences, row.prefill_tokens_per_s,
                row.first_token_s, row.decode_tokens_per_s, row.decode_tokens_per_s / row.sequences,
                bytes_text(row.memory).c_str(), to_string(row.prefill_bound), to_string(row.decode_bound),
                row.fits ? "" : "; does not fit");
  }
  return exit_ok;
}

}  // namespace examples
