// llminfer-wall MODEL: runs the model under a profile and reports.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "../bench/measure.h"
#include "../common/format.h"
#include "../common/program.h"
#include "options.h"

namespace examples {
namespace {

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file)
    llminfer::throw_error({llminfer::ErrorCode::unavailable, "cannot write " + path.string(), "llminfer-wall"});
}

// The whole life of requests: prompts and new tokens, all through one batcher.
void work(const WallOptions& options, const llminfer::Model& model, const llminfer::Profile& profile,
          const std::stop_token& stop) {
  const int sequences = options.batch.front(), prompt = options.prompt.front();
  const int length = prompt + options.generate + 1;
  if (sequences == 1) {
    auto session = llminfer::Session::open(model, {.context = length, .profile = profile}).value();
    session.append(some_tokens(model.tokenizer(), prompt, 1)).value();
    auto generator = session.generate({.max_tokens = options.generate, .ignore_end_of_text = true}).value();
    generator.run([](const llminfer::Piece&) { return true; }, stop).value();
    return;
  }
  llminfer::BatcherOptions batcher_options;
  batcher_options.kv_bytes = static_cast<std::size_t>(model.info().memory.kv_per_token) *
                             static_cast<std::size_t>(length + 128) * static_cast<std::size_t>(sequences);
  batcher_options.max_sequences = sequences;
  batcher_options.pieces_ahead = options.generate;
  batcher_options.profile = profile;
  auto batcher = llminfer::Batcher::start(model, batcher_options).value();
  std::vector<llminfer::Generator> generators;
  for (int i = 0; i < sequences; ++i) {
    auto session = batcher.open_session({.context = length}).value();
    session.append(some_tokens(model.tokenizer(), prompt, static_cast<unsigned>(i) + 10)).value();
    generators.push_back(
        batcher.submit(std::move(session), {.max_tokens = options.generate, .ignore_end_of_text = true}).value());
  }
  for (auto& generator : generators) generator.run([](const llminfer::Piece&) { return true; }, stop).value();
}

}  // namespace

int record(const WallOptions& options, const std::stop_token& stop) {
  const auto source = llminfer::ModelSource::file(options.path);
  const auto device = llminfer::Device::cpu({.threads = options.threads, .isa = options.isa}).value();
  std::vector<llminfer::WeightType> types = types_of(source, options.weight_type());
  for (const auto type : {llminfer::WeightType::q8_0, llminfer::WeightType::q4_0}) types.push_back(type);  // for advice
  llminfer::ProfileOptions profile_options;
  profile_options.ceilings = ceilings_of(options, device, types);
  for (const std::string& file : options.others) {
    profile_options.devices.push_back(llminfer::DeviceDescription::file(file).value());
  }
  const llminfer::Model model = open_model(options, device, options.weight_type(), stop);
  work(options, model, {}, stop);  // warm
  llminfer::Profile profile = llminfer::Profile::open(model, profile_options).value();
  work(options, model, profile, stop);
  const llminfer::ProfileReport report = profile.report().value();
  std::fputs(options.json ? report.json().c_str() : report.text().c_str(), stdout);
  if (!options.html.empty()) write(options.html, report.html());
  if (!options.svg.empty()) {
    for (const char* picture : {"roofline", "time", "memory", "batch"}) {
      write(std::filesystem::path(options.svg) / (std::string(picture) + ".svg"), report.svg(picture));
    }
  }
  return exit_ok;
}

}  // namespace examples
