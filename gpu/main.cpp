// Checks and measures the CUDA device: usage below. JSON goes to standard output, or into a file; 0: all was well.
// Built twice: against the real runtime (gpu_check), and against the simulator's (gpu_check_simulated), which counts.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "commands.h"
#include "host/cuda_backend.h"
#ifdef GPU_CHECK_SIMULATED
#include "cublas/stand_in.h"
#include "runtime/device.h"
#endif

namespace gpu_check {
namespace {

constexpr const char* usage =
    "usage: gpu_check info|correct|replay|ceilings|products|dense|attention [option ...]\n"
    "  --seed N      of random data            --filter TEXT   of cases or types       --slow   large cases too\n"
    "  --count N     of replayed steps         --seconds S     of the ceilings         --tiny   the smallest shapes\n"
    "  --shape K,N   of products: columns, rows of weights\n"
    "  --rows A,B    of products               --samples N     of each time            --out FILE\n"
    "  --ceilings FILE   what `ceilings` wrote: shares of it are given\n"
    "  --counts      (simulator) what each launch did\n"
    "  --clusters    (simulator) on a GPU with clusters\n"
    "  --fail-product N  (simulator) what cuBLAS makes of all products but the first N\n";

[[noreturn]] void fail(const std::string& what) { throw std::invalid_argument(what); }

double number(const char* name, const char* text) {
  double v = 0;
  const char* end = text + std::strlen(text);
  if (std::from_chars(text, end, v).ptr != end || !(v >= 0)) fail(std::string(name) + ": '" + text + "' is no number");
  return v;
}

std::vector<int> numbers(const char* name, std::string text) {
  std::vector<int> out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    out.push_back(static_cast<int>(number(name, text.substr(at, comma - at).c_str())));
    if (out.back() < 1) fail(std::string(name) + ": at least 1");
    at = comma + 1;
  }
  return out;
}

struct Arguments {
  std::string command{};
  std::string out{};
  bool counts = false;
  bool clusters = false;
  int fail_product = -1;
  Options options{};
};

void read_ceilings(const char* file, Options& options) {
  std::ifstream in(file);
  const Json json = Json::parse(in, nullptr, false);
  if (json.is_discarded() || !json.contains("result")) fail(std::string("no ceilings in ") + file);
  options.copy = json["result"]["copy_bytes_per_s"]["best"];
  options.tensor = json["result"]["bf16_operations_per_s"]["best"];
}

Arguments read(int argc, char** argv) {
  if (argc < 2) fail("no command");
  Arguments a;
  a.command = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--tiny") {
      a.options.tiny = true;
    } else if (name == "--slow") {
      a.options.slow = true;
    } else if (name == "--clusters") {
      a.clusters = true;
    } else if (name == "--counts") {
      a.counts = true;
    } else if (i + 1 == argc) {
      fail(name + ": unknown, or without a value");
    } else {
      const char* value = argv[++i];
      if (name == "--seed") {
        a.options.seed = static_cast<std::uint64_t>(number("--seed", value));
      } else if (name == "--filter") {
        a.options.filter = value;
      } else if (name == "--count") {
        a.options.count = static_cast<int>(number("--count", value));
      } else if (name == "--seconds") {
        a.options.seconds = number("--seconds", value);
      } else if (name == "--samples") {
        a.options.samples = std::max(1, static_cast<int>(number("--samples", value)));
      } else if (name == "--rows") {
        a.options.rows = numbers("--rows", value);
      } else if (name == "--shape") {
        a.options.shape = numbers("--shape", value);
        if (a.options.shape.size() != 2 || a.options.shape[0] % 256 != 0) fail("--shape: K,N with K a multiple of 256");
      } else if (name == "--fail-product") {
        a.fail_product = static_cast<int>(number("--fail-product", value));
      } else if (name == "--out") {
        a.out = value;
      } else if (name == "--ceilings") {
        read_ceilings(value, a.options);
      } else {
        fail(name + ": unknown");
      }
    }
  }
  return a;
}

#ifdef GPU_CHECK_SIMULATED
void fail_products(const Arguments& a) {
  if (a.fail_product < 0) return;
  ptxsim::simulated_cublas().well = static_cast<std::uint64_t>(a.fail_product);
  ptxsim::simulated_cublas().product_status = 14;
}
Json counts_of(const ptxsim::SimulatedDevice& device) {
  Json list = Json::array();
  for (const ptxsim::LaunchRecord& r : device.launches) {
    const ptxsim::Counters& c = r.counters;
    list.push_back({{"kernel", r.kernel},
                    {"lane_instructions", c.lane_instructions},
                    {"warp_instructions", c.warp_instructions},
                    {"global_sectors", c.global_sectors},
                    {"unique_sectors", c.unique_sectors},
                    {"shared_wavefronts", c.shared_wavefronts},
                    {"matrix_instructions", c.mma}});
  }
  return list;
}
bool finish_simulation(const Arguments& a, Json& json) {
  ptxsim::SimulatedDevice& device = ptxsim::simulated_device();
  if (a.counts) json["launches"] = counts_of(device);
  const ptxsim::CallCounts& calls = device.calls;
  json["calls"] = {{"launches", calls.launches}, {"graph_launches", calls.graph_launches}};
  json["findings"] = Json::array();
  for (const ptxsim::Finding& f : device.findings) json["findings"].push_back(f.source + ": " + f.text);
  return device.findings.empty();
}
#endif

std::vector<std::string> cublas() {
#ifdef GPU_CHECK_SIMULATED
  return {ptxsim::stand_in_cublas()};
#else
  return llminfer::cuda::cublas_names();
#endif
}

bool run(const Arguments& a, Json& json) {
#ifdef GPU_CHECK_SIMULATED
  ptxsim::simulated_device().record_launches = a.counts;
  if (a.clusters) ptxsim::simulated_device().chip = ptxsim::h200_chip;
  fail_products(a);
#endif
  const auto device = llminfer::cuda::make_cuda_backend(0, cublas());
  const auto engine = std::make_shared<llminfer::cuda::Engine>(0, cublas());
  const llminfer::DeviceInfo info = device->info();
  json["device"] = {
      {"name", info.name}, {"isa", info.isa}, {"memory", info.memory}, {"multiprocessors", engine->multiprocessors()}};
  json["command"] = a.command;
  Json& result = json["result"];
  result = Json::object();
  if (a.command == "info") {
    engine->gemm.open(engine->stream());
    result["cublas"] = engine->gemm.note();
    return true;
  }
  if (a.command == "correct") {
    const bool ok = correct(*device, a.options, result);
    result["notes"] = device->info().notes;
    return ok;
  }
  if (a.command == "replay") return replay(*device, a.options, result);
  if (a.command == "ceilings") return ceilings(engine, a.options, result);
  if (a.command == "products") return products(engine, a.options, result);
  if (a.command == "dense") return dense(engine, a.options, result);
  if (a.command == "attention") return attention(engine, a.options, result);
  fail("no command " + a.command);
}

int main_of(int argc, char** argv) try {
  const Arguments a = read(argc, argv);
  Json json = Json::object();
  bool ok = run(a, json);
#ifdef GPU_CHECK_SIMULATED
  ok = finish_simulation(a, json) && ok;
#endif
  json["ok"] = ok;
  const std::string text = json.dump(1) + "\n";
  if (a.out.empty()) {
    std::fputs(text.c_str(), stdout);
  } else if (!(std::ofstream(a.out) << text).flush()) {
    fail("cannot write " + a.out);
  }
  return ok ? 0 : 1;
} catch (const std::invalid_argument& e) {
  std::fprintf(stderr, "error: %s\n%s", e.what(), usage);
  return 2;
} catch (const std::exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 1;
}

}  // namespace
}  // namespace gpu_check

int main(int argc, char** argv) { return gpu_check::main_of(argc, argv); }
