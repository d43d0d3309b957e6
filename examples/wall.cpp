// llminfer-wall: is the device computing, or starving for data, and what would help?
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <llminfer/llminfer.hpp>

#include "common/format.h"
#include "common/interrupt.h"
#include "common/program.h"
#include "wall/options.h"

namespace examples {
namespace {

using llminfer::KvType;
using llminfer::WeightType;

void print_rate(const std::string& name, const llminfer::MeasuredRate& rate, const char* unit) {
  if (rate.best <= 0) return;
  std::printf("  %-12s %8.1f %s, spread %.0f %%\n", name.c_str(), rate.best / 1e9, unit, 100 * rate.spread);
}

int print_ceilings(const WallOptions& options) {
  const auto device = llminfer::Device::cpu({.threads = options.threads, .isa = options.isa}).value();
  const llminfer::Ceilings ceilings = ceilings_of(options, device, {});
  std::printf("%s, %s\n", ceilings.name.c_str(), ceilings.isa.c_str());
  for (const llminfer::ThreadCeilings& at : ceilings.at) {
    std::printf("%d thread%s\n", at.threads, at.threads == 1 ? "" : "s");
    print_rate("memory read", at.read, "GB/s");
    print_rate("memory copy", at.copy, "GB/s");
    for (const auto& cache : at.caches) print_rate(print("L%d read", cache.level), cache.read, "GB/s");
    print_rate("f32", at.f32, "GFLOP/s");
    print_rate("int8", at.int8, "GOP/s");
    print_rate("bf16", at.bf16, "GFLOP/s");
    std::printf("  %-12s %8.2f us\n", "barrier", 1e6 * at.barrier_s);
  }
  if (ceilings.busy) std::printf("note: %s\n", llminfer::warning(ceilings).c_str());
  return exit_ok;
}

void add_options(CLI::App& app, WallOptions& o) {
  app.add_option("model", o.path, "Model file (GGUF); none: the machine's ceilings alone");
  app.add_option("--ceilings", o.ceilings, "File that keeps what is measured of the machine (some seconds)");
  app.add_option("--threads", o.threads, "Threads; 0: the cores this process may use")->check(CLI::Range(0, 1024));
  app.add_option("--isa", o.isa, "Kernels: auto, portable, avx2, ...")->capture_default_str();
  app.add_option("--kv", o.kv, "Format of cached keys and values")
      ->check(CLI::IsMember({"automatic", "f32", "f16", "bf16", "q8_0", "q4_0"}))
      ->capture_default_str();
  app.add_option("--weights", o.weights,
                 "Type that matrices are converted to: as_stored, F16, Q8_0, Q4_0, ...; for --compare a list")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--batch", o.batch, "Sequences at once; for --plan and --compare a list (1,4,16)")
      ->delimiter(',')
      ->check(CLI::Range(1, 65536));
  app.add_option("--prompt", o.prompt, "Tokens of each prompt (512); for --compare a list (128,512)")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--generate", o.generate, "New tokens of each sequence")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--context", o.context, "With --plan: prompt and new tokens together")->check(CLI::Range(0, 1 << 24));
  app.add_option("--rounds", o.rounds, "With --compare: so many times a calibration and a measurement; medians count")
      ->check(CLI::Range(1, 100));
  app.add_option("--device", o.device, "With --plan: a device's description (JSON) instead of this machine");
  app.add_option("--other", o.others, "Descriptions of devices that the advice may name");
  app.add_option("--html", o.html, "Write the report as a page");
  app.add_option("--svg", o.svg, "Write the report's pictures into this folder");
  app.add_flag("--plan", o.plan, "Forecast from the file's metadata alone");
  app.add_flag("--compare", o.compare, "Forecast and measure");
  app.add_flag("--overhead", o.overhead,
               "Decode with and without a profile in turn, --rounds times: what recording costs");
  app.add_flag("--json", o.json, "The report as JSON");
}

int wall(WallOptions o) try {
  const Interrupt interrupt;
  if (o.path.empty()) return print_ceilings(o);
  if (o.plan + o.compare + o.overhead > 1) throw UsageError("--plan, --compare and --overhead do not go together");
  if (!o.plan && (!o.device.empty() || o.context > 0)) throw UsageError("--device and --context are options of --plan");
  if (!o.compare && o.weights.size() > 1) throw UsageError("only --compare takes several --weights");
  const bool list = o.plan || o.compare;
  if (o.batch.empty()) o.batch = list ? std::vector<int>{1, 4, 16} : std::vector<int>{1};
  if (o.prompt.empty()) o.prompt = o.compare ? std::vector<int>{128, 512} : std::vector<int>{512};
  if (o.plan) return plan(o);
  if (o.overhead) return overhead(o, interrupt.token());
  return o.compare ? compare(o, interrupt.token()) : record(o, interrupt.token());
} catch (const llminfer::Exception& error) {
  if (error.error().code == llminfer::ErrorCode::cancelled) return exit_interrupted;
  throw;
}

}  // namespace

WeightType WallOptions::weight_type(std::size_t index) const {
  const std::string& name = weights.at(index);
  for (int i = 0; i <= static_cast<int>(WeightType::mxfp4); ++i) {
    if (llminfer::describe(static_cast<WeightType>(i)).name == name) return static_cast<WeightType>(i);
  }
  throw UsageError("--weights " + name + " is no known type");
}

KvType WallOptions::kv_type() const {
  for (int i = 1; i <= static_cast<int>(KvType::q4_0); ++i) {
    if (kv == llminfer::to_string(static_cast<KvType>(i))) return static_cast<KvType>(i);
  }
  return KvType::automatic;
}

llminfer::Workload WallOptions::workload(int prompt_tokens) const {
  llminfer::Workload out;
  out.batches = batch;
  out.prompt = prompt_tokens;
  out.generate = generate;
  out.weight_type = weight_type();
  out.k = out.v = kv_type();
  return out;
}

llminfer::Ceilings ceilings_of(const WallOptions& options, const llminfer::Device& device,
                               std::vector<WeightType> types) {
  llminfer::CeilingsOptions wanted;
  wanted.cache = options.ceilings;
  wanted.calibrate = std::move(types);
  return llminfer::measure_ceilings(device, wanted).value();
}

std::vector<WeightType> types_of(const llminfer::ModelSource& source, WeightType weights) {
  std::vector<WeightType> types = llminfer::weight_types(source).value();
  if (weights != WeightType::as_stored) types.push_back(weights);  // what cannot be converted keeps its own
  return types;
}

llminfer::Model open_model(const WallOptions& options, const llminfer::Device& device, WeightType weights,
                           std::stop_token stop) {
  llminfer::LoadOptions load;
  load.devices = {device};
  load.context = *std::max_element(options.prompt.begin(), options.prompt.end()) + options.generate + 1;
  load.max_sequences = std::max(32, *std::max_element(options.batch.begin(), options.batch.end()));
  load.k = load.v = options.kv_type();
  load.weight_type = weights;
  return llminfer::Model::open(llminfer::ModelSource::file(options.path), load, std::move(stop)).value();
}

}  // namespace examples

int main(int argc, char** argv) {
  CLI::App app(
      "Says whether the device is computing or starving for data, and what would help: runs a model under a profile "
      "and\n"
      "compares every op with what this machine could do at best, which is measured first.",
      "llminfer-wall");
  examples::WallOptions options;
  examples::add_options(app, options);
  return examples::run_program(app, argc, argv, [&] { return examples::wall(options); });
}
