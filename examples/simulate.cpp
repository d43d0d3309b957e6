// llminfer-simulate: a day of traffic on a device that need not be here, by several policies side by side.
#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <llminfer/llminfer.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/format.h"
#include "common/interrupt.h"
#include "common/program.h"
#include "common/progress.h"
#include "common/stopwatch.h"
#include "simulate/report.h"

namespace {

using namespace examples;
using json = nlohmann::ordered_json;

struct NamedPolicy {
  const char* name;
  llminfer::BatchMode mode;
  bool prefix_cache;
};
constexpr std::array policies = {NamedPolicy{"fixed", llminfer::BatchMode::fixed, false},
                                 NamedPolicy{"continuous", llminfer::BatchMode::continuous, false},
                                 NamedPolicy{"chunked", llminfer::BatchMode::chunked, false},
                                 NamedPolicy{"prefix", llminfer::BatchMode::chunked, true}};

struct Options {
  std::string model{};
  std::string device{};
  llminfer::Traffic traffic{};
  std::vector<double> rates{1};
  std::vector<std::string> policies{"all"};
  llminfer::BatchPolicy policy{};
  llminfer::SimulationOptions simulation{};
  std::string kv = "automatic";
  double kv_gigabytes = 0;
  std::string svg{};
  bool as_json = false;
  bool progress = false;
};

llminfer::KvType kv_type(const std::string& name) {
  using llminfer::KvType;
  for (const KvType type : {KvType::f32, KvType::f16, KvType::bf16, KvType::q8_0, KvType::q4_0}) {
    if (name == llminfer::to_string(type)) return type;
  }
  return KvType::automatic;
}

std::vector<NamedPolicy> chosen(const Options& options) {
  std::vector<NamedPolicy> out;
  for (const NamedPolicy& policy : policies) {
    for (const std::string& name : options.policies) {
      if (name != "all" && name != policy.name) continue;
      out.push_back(policy);
      break;
    }
  }
  return out;
}

std::vector<SimulatedRun> run(Options options, const llminfer::DeviceDescription& device, const std::stop_token& stop) {
  const llminfer::ModelSource model = llminfer::ModelSource::file(options.model);
  options.simulation.k = options.simulation.v = kv_type(options.kv);
  options.policy.kv_bytes = static_cast<std::size_t>(options.kv_gigabytes * 1e9);
  ProgressLine line(options.progress);
  std::vector<SimulatedRun> runs;
  for (const NamedPolicy& policy : chosen(options)) {
    for (const double rate : options.rates) {
      options.traffic.rate = rate;
      options.policy.mode = policy.mode;
      options.policy.prefix_cache = policy.prefix_cache;
      options.simulation.progress = [&](double share) {
        line.show(print("%s, %g requests/s: %3.0f %%", policy.name, rate, 100 * share));
      };
      runs.push_back(
          {policy.name, rate,
           llminfer::simulate(model, device, options.traffic, options.policy, options.simulation, stop).value()});
    }
  }
  return runs;
}

std::string counts_text(const llminfer::TokenCounts& counts) {
  return print("median %g, sigma %g", counts.median, counts.sigma);
}

/// What was simulated, for people.
std::vector<std::string> description(const Options& options, const llminfer::DeviceDescription& device) {
  const llminfer::Traffic& t = options.traffic;
  std::vector<std::string> out;
  out.push_back(print("%s on %s, at most %d sequences, steps of %d tokens if chunked",
                      std::filesystem::path(options.model).filename().c_str(), device.name.c_str(),
                      options.policy.max_sequences, options.policy.step_tokens));
  out.push_back(print("%lld requests, burstiness %g, daily swing %g; prompts: %s; outputs: %s; seed %llu",
                      static_cast<long long>(t.requests), t.burstiness, t.daily_swing, counts_text(t.prompt).c_str(),
                      counts_text(t.output).c_str(), static_cast<unsigned long long>(t.seed)));
  if (t.prefix_share > 0) {
    out.push_back(print("%g %% of the prompts begin with one of %d prefixes of %d tokens", 100 * t.prefix_share,
                        t.prefixes, t.prefix_tokens));
  }
  return out;
}

void write_svg(const Options& options, const llminfer::DeviceDescription& device,
               const std::vector<SimulatedRun>& runs) {
  std::ofstream file(options.svg, std::ios::binary);
  file << svg("Batching policies, simulated", description(options, device), runs);
  if (!file.flush()) throw std::runtime_error("'" + options.svg + "' cannot be written");
}

void print_json(const Options& options, const llminfer::DeviceDescription& device,
                const std::vector<SimulatedRun>& runs, double wall) {
  json all = {{"model", std::filesystem::path(options.model).filename().string()},
              {"device", device.name},
              {"replicas", device.replicas},
              {"max_sequences", options.policy.max_sequences},
              {"step_tokens", options.policy.step_tokens},
              {"seed", options.traffic.seed},
              {"wall_s", wall},
              {"runs", json::array()}};
  for (const SimulatedRun& r : runs) all["runs"].push_back(to_json(r));
  std::puts(all.dump(2, ' ', false, json::error_handler_t::replace).c_str());
}

void print_text(const Options& options, const llminfer::DeviceDescription& device,
                const std::vector<SimulatedRun>& runs, double wall) {
  for (const std::string& l : description(options, device)) std::puts(l.c_str());
  std::printf("\n%s", table(runs).c_str());
  double tokens = 0;
  for (const SimulatedRun& r : runs) tokens += static_cast<double>(r.report.output_tokens);
  std::printf("\n%.3g output tokens in %.1f s of this machine: %.2f microseconds a token\n", tokens, wall,
              tokens > 0 ? 1e6 * wall / tokens : 0);
}

int simulate(const Options& options) try {
  const Interrupt interrupt;
  const llminfer::DeviceDescription device = llminfer::DeviceDescription::file(options.device).value();
  const Stopwatch watch;
  const std::vector<SimulatedRun> runs = run(options, device, interrupt.token());
  const double wall = watch.seconds();
  if (!options.svg.empty()) write_svg(options, device, runs);
  (options.as_json ? print_json : print_text)(options, device, runs, wall);
  return exit_ok;
} catch (const llminfer::Exception& error) {
  if (error.error().code == llminfer::ErrorCode::cancelled) return exit_interrupted;
  throw;
}

void add_traffic_options(CLI::App& app, llminfer::Traffic& traffic) {
  const auto add = [&](const char* name, auto& value, const char* help) {
    app.add_option(name, value, help)->capture_default_str()->group("Traffic");
  };
  add("--requests", traffic.requests, "How many come");
  add("--burstiness", traffic.burstiness, "Deviation of the time between two, over its mean; 1: Poisson");
  add("--daily-swing", traffic.daily_swing, "Share by which the rate goes up and down in 24 hours");
  add("--prompt-median", traffic.prompt.median, "Tokens of a prompt: median");
  add("--prompt-sigma", traffic.prompt.sigma, "... and deviation of the logarithm");
  add("--output-median", traffic.output.median, "Tokens of an answer: median");
  add("--output-sigma", traffic.output.sigma, "... and deviation of the logarithm");
  add("--prefix-share", traffic.prefix_share, "Share of prompts that begin with a common prefix");
  add("--prefix-tokens", traffic.prefix_tokens, "Length of such a prefix");
  add("--prefixes", traffic.prefixes, "How many there are");
  add("--seed", traffic.seed, "The same traffic for the same seed");
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("model", options.model, "Model file (GGUF); only its metadata is read")->required();
  app.add_option("--device", options.device, "Description of a device (JSON), see share/llminfer/devices")->required();
  app.add_option("--rate", options.rates, "Requests a second on average; several, as in 1,2,4, are compared")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--policy", options.policies,
                 "fixed, continuous, chunked, prefix (chunked, with the prefix cache) or all")
      ->delimiter(',')
      ->check(CLI::IsMember({"all", "fixed", "continuous", "chunked", "prefix"}))
      ->capture_default_str();
  app.add_option("--max-sequences", options.policy.max_sequences, "Most sequences of a step")->capture_default_str();
  app.add_option("--step-tokens", options.policy.step_tokens, "Most tokens of a step, if chunked")
      ->capture_default_str();
  app.add_option("--kv-gb", options.kv_gigabytes, "Memory for keys and values, GB; 0: what the weights leave")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  app.add_option("--context", options.simulation.context, "Most tokens of a sequence; 0: as trained")
      ->capture_default_str();
  app.add_option("--kv", options.kv, "Format of cached keys and values")
      ->check(CLI::IsMember({"automatic", "f32", "f16", "bf16", "q8_0", "q4_0"}))
      ->capture_default_str();
  app.add_option("--svg", options.svg, "Also write charts into this file");
  app.add_flag("--json", options.as_json, "A JSON object instead of text");
  app.add_flag("--progress", options.progress, "Show progress on standard error even if it is not a terminal");
  add_traffic_options(app, options.traffic);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Serves simulated traffic on a described device with the library's own scheduler and pages, by several "
      "policies:\n"
      "fixed batches, continuous batching, the same with long prompts cut into chunks, and that with a prefix cache.",
      "llminfer-simulate");
  Options options;
  add_options(app, options);
  return run_program(app, argc, argv, [&] { return simulate(options); });
}
