#include <llminfer/ceilings.hpp>

#include <algorithm>
#include <llminfer/device.hpp>
#include <optional>

#include "api/guard.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/new_file.h"
#include "profile/calibration.h"
#include "profile/ceilings_json.h"
#include "runtime/sampling/chain.h"

namespace llminfer {
inline namespace v0 {
namespace {

constexpr std::uint64_t most_file_bytes = std::uint64_t{4} << 20;

/// The file's ceilings, if they are of this device and library.
std::optional<Ceilings> read_cache(const std::filesystem::path& path, const DeviceInfo& info) {
  std::error_code ignored;
  if (path.empty() || !std::filesystem::is_regular_file(path, ignored)) return {};
  const core::File file(path);
  if (file.size() > most_file_bytes) return {};
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  std::optional<Ceilings> out = profile::ceilings_from_json(text);
  const bool same = out && out->library == profile::library_version() && out->device == info.kind &&
                    out->name == info.name && out->isa == info.isa && out->threads == info.threads;
  if (!same) out.reset();
  return out;
}

void write_cache(const std::filesystem::path& path, const Ceilings& ceilings) {
  const std::string text = profile::to_json(ceilings);
  try {
    core::NewFile file(path);
    file.append(std::as_bytes(std::span(text)));
    file.commit();
  } catch (const Exception& error) {
    core::fail(ErrorCode::unavailable, "CeilingsOptions::cache: {}", error.error().message);
  }
}

/// Choosing greedily among many logits, per logit. Rows of their own, as other threads have written them: no row comes
/// from a core's own cache.
double sample_seconds() {
  constexpr int vocabulary = 65536, rows = 24;
  runtime::SamplerChain::Setup setup;
  setup.vocabulary = vocabulary;
  setup.context = 64;
  setup.logprobs = false;
  runtime::SamplerChain chain({}, setup);
  runtime::SamplerWorkspace workspace(vocabulary, std::pmr::get_default_resource());
  std::vector<float> logits(static_cast<std::size_t>(vocabulary) * rows);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i * 2654435761U % 1000);
  const std::vector<Token> history(8, 1);
  const core::SteadyClock clock;
  const std::int64_t start = clock.now_ns();
  for (int row = 0; row < rows; ++row) {
    runtime::Draw draw;
    const auto of_row =
        std::span(logits).subspan(static_cast<std::size_t>(vocabulary) * static_cast<std::size_t>(row), vocabulary);
    static_cast<void>(chain.sample(workspace, of_row, history, draw));
  }
  return static_cast<double>(clock.now_ns() - start) * 1e-9 / (static_cast<double>(vocabulary) * rows);
}

Ceilings measure(const Device& device, const CeilingsOptions& options) {
  const DeviceInfo info = device.backend()->info();
  std::optional<Ceilings> cached = read_cache(options.cache, info);
  const bool complete = cached && profile::missing_types(*cached, options.calibrate).empty();
  if (complete) return *std::move(cached);
  Ceilings out = cached ? *std::move(cached) : device.backend()->ceilings(options.seconds).value();
  if (out.at.empty()) core::fail(ErrorCode::unavailable, "device '{}' measured nothing", info.kind);
  out.library = profile::library_version();
  out.device = info.kind;
  out.name = info.name;
  out.isa = info.isa;
  out.threads = info.threads;
  profile::calibrate(*device.backend(), options.calibrate, out);
  if (!out.efficiencies.empty() && out.sample_s <= 0) out.sample_s = sample_seconds();
  if (!options.cache.empty()) write_cache(options.cache, out);
  return out;
}

}  // namespace

Result<Ceilings> measure_ceilings(const Device& device, const CeilingsOptions& options) {
  return api::guard("measure_ceilings", [&] {
    const bool in_range = options.seconds >= 0.05 && options.seconds <= 60;  // false for NaN
    if (!in_range) {
      core::fail(ErrorCode::invalid_argument, "CeilingsOptions::seconds is {}, must be 0.05 to 60", options.seconds);
    }
    return measure(device, options);
  });
}

Result<void> calibrate_again(const Device& device, Ceilings& ceilings) {
  return api::guard("calibrate_again", [&] {
    const DeviceInfo info = device.backend()->info();
    const bool same = ceilings.device == info.kind && ceilings.name == info.name && ceilings.isa == info.isa &&
                      ceilings.threads == info.threads && !ceilings.at.empty();
    if (!same) {
      core::fail(ErrorCode::mismatch, "the ceilings are of '{}' ({}, {} threads), the device is '{}' ({}, {} threads)",
                 ceilings.name, ceilings.isa, ceilings.threads, info.name, info.isa, info.threads);
    }
    profile::calibrate_again(*device.backend(), ceilings);
  });
}

}  // namespace v0
}  // namespace llminfer
