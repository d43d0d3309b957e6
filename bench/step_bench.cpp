// Steps of the CPU device on a real model, without the engine around them: tokens per second of prefill and decode, and
// where the time goes, op by op.
//   step_bench MODEL [prompt=512] [generate=64] [threads=0] [isa=auto] [rounds=3] [sequences=1] [chunk=prompt]
// Prompts go in steps of `chunk` tokens; 0: none is computed, the cache of its tokens holds made-up numbers. Its type
// is the kernels' default.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "device/cpu/cpu_backend.h"
#include "format/model_file.h"
#include "graph/op_io.h"
#include "models/file_weights.h"
#include "models/registry.h"

using namespace llminfer;

namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Time that all threads computed: with one thread, what a busy machine would give if it were idle.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// Time by the names of the ops of a span.
class Times final : public backend::ProfileSink {
 public:
  explicit Times(const backend::Graph& graph) : graph_(graph) {}
  void on_span(const backend::OpSpan& span) noexcept override {
    std::string name;
    for (int i = span.first_op; i < span.first_op + span.op_count; ++i) {
      const std::string op = name_of(graph_.ops[static_cast<std::size_t>(i)]);
      if (name.find(op) == std::string::npos) name += (name.empty() ? "" : "+") + op;
    }
    Entry& entry = entries_[name.empty() ? "quantize" : name];
    entry.total += static_cast<double>(span.end_ns - span.start_ns) * 1e-6;
    entry.wait += static_cast<double>(span.wait_ns) * 1e-6;
    ++entry.count;
  }
  void print() const {
    for (const auto& [name, e] : entries_) {
      std::printf("  %9.3f ms  wait %8.3f  %5d x  %s\n", e.total, e.wait, e.count, name.c_str());
    }
  }

 private:
  /// Products by type and shape of their weights.
  std::string name_of(const backend::Op& op) const {
    const auto* matmul = std::get_if<backend::MatMul>(&op);
    if (matmul == nullptr) return graph::name_of(op);
    const backend::Weight& w = graph_.weights[static_cast<std::size_t>(matmul->weight)];
    return std::string(describe(w.type).name) + " " + std::to_string(w.columns) + ">" + std::to_string(w.rows);
  }

  struct Entry {
    double total = 0, wait = 0;
    int count = 0;
  };
  const backend::Graph& graph_;
  std::map<std::string, Entry> entries_;
};

/// Sequences that grow in step.
class Bench {
 public:
  Bench(const std::shared_ptr<const backend::Program>& program, const backend::Graph& graph, KvType cache, int context,
        int sequences)
      : program_(program), graph_(graph), sequences_(sequences) {
    workspace_ = program->workspace().value();
    const int each = context / 32 + 1;
    kv_ = program->make_kv({cache, cache}, std::vector<std::int32_t>(graph.states.size(), each * sequences)).value();
    pages_.resize(static_cast<std::size_t>(sequences));
    for (int s = 0; s < sequences; ++s) {
      for (int i = 0; i < each; ++i) pages_[static_cast<std::size_t>(s)].push_back(s * each + i);
    }
  }

  /// All pages full of halves below 1, or of other small numbers.
  void fill() {
    for (std::size_t g = 0; g < graph_.states.size(); ++g) {
      const auto group = static_cast<std::int32_t>(g);
      std::vector<std::byte> page(kv_->page_bytes(group));
      for (std::size_t i = 0; i < page.size(); ++i) page[i] = static_cast<std::byte>(i * 7919 >> 4 & 0x33U);
      for (const auto& pages : pages_) {
        for (const std::int32_t p : pages) kv_->write_page(group, p, page);
      }
    }
  }

  void prompt(int tokens, int chunk, backend::ProfileSink* profile) {
    for (int at = 0; chunk > 0 && at < tokens; at += chunk) step(at, std::min(chunk, tokens - at), profile);
  }

  void step(int start, int count, backend::ProfileSink* profile) {
    std::vector<Token> tokens;
    std::vector<std::int32_t> positions, rows;
    std::vector<backend::SequenceRange> ranges;
    std::vector<backend::PageTable> tables;
    for (int s = 0; s < sequences_; ++s) {
      ranges.push_back({static_cast<std::int32_t>(tokens.size()), count, start, 0});
      for (int i = 0; i < count; ++i) {
        tokens.push_back((start + i) * 7919 % graph_.vocabulary);
        positions.push_back(start + i);
      }
      rows.push_back(static_cast<std::int32_t>(tokens.size()) - 1);
    }
    for (std::size_t g = 0; g < graph_.states.size(); ++g) {
      for (const auto& p : pages_) tables.push_back({p.data(), static_cast<std::int32_t>(p.size())});
    }
    std::vector<std::int32_t> ids(rows.size());
    std::vector<float> scores(rows.size());
    backend::StepOutputs outputs;
    outputs.kind = backend::OutputKind::arg_max;
    outputs.ids = ids;
    outputs.scores = scores;
    const backend::Status status =
        program_->run({tokens, positions, ranges, tables, rows}, *kv_, *workspace_, outputs, stop_, profile);
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", status.message);
      std::exit(1);
    }
  }

 private:
  std::shared_ptr<const backend::Program> program_;
  const backend::Graph& graph_;
  int sequences_;
  std::unique_ptr<backend::Workspace> workspace_;
  std::unique_ptr<backend::KvStorage> kv_;
  std::vector<std::vector<std::int32_t>> pages_;
  backend::StopFlag stop_;
};

int argument(int argc, char** argv, int index, int otherwise) {
  return argc > index ? std::atoi(argv[index]) : otherwise;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: step_bench MODEL [prompt] [generate] [threads] [isa] [rounds] [sequences] [chunk]\n");
    return 2;
  }
  const int prompt = argument(argc, argv, 2, 512), generate = argument(argc, argv, 3, 64);
  const int rounds = std::max(1, argument(argc, argv, 6, 3)), sequences = std::max(1, argument(argc, argv, 7, 1));
  const int chunk = argument(argc, argv, 8, prompt);
  try {
    const format::ModelFile file = format::ModelFile::open(ModelSource::file(argv[1]));
    models::BuildOptions build;  // longer than the model was trained for, if asked
    build.context = std::max(file.hyper_parameters().context_length, prompt + generate + 1);
    const models::ModelGraph model = models::build_model(file, file.hyper_parameters(), build);
    const auto device = cpu::make_cpu_backend({argument(argc, argv, 4, 0), argc > 5 ? argv[5] : "auto"});
    backend::CompileOptions options;
    options.limits = {std::max(std::min(chunk, prompt), 1) * sequences, sequences, sequences};
    const double begin = seconds();
    const auto program =
        device->compile(model.graph, models::FileWeights(file, model.graph, model.tensors), options).value();
    const DeviceInfo info = device->info();
    std::printf("isa %s, %d threads, packed in %.3f s, cache %s\n", info.isa.c_str(), info.threads, seconds() - begin,
                std::string(to_string(info.default_kv)).c_str());
    Bench bench(program, *model.graph, info.default_kv, prompt + generate + 1, sequences);
    if (chunk == 0) bench.fill();
    std::vector<double> prefill, decode, prefill_cpu, decode_cpu;
    for (int r = 0; r < rounds; ++r) {
      double at = seconds(), cpu = cpu_seconds();
      bench.prompt(prompt, chunk, nullptr);
      prefill.push_back(seconds() - at);
      prefill_cpu.push_back(cpu_seconds() - cpu);
      at = seconds();
      cpu = cpu_seconds();
      for (int i = 0; i < generate; ++i) bench.step(prompt + i, 1, nullptr);
      decode.push_back(seconds() - at);
      decode_cpu.push_back(cpu_seconds() - cpu);
    }
    std::printf("prefill %d x %d: %.1f tokens/s, %.1f per CPU second\n", sequences, prompt,
                sequences * prompt / median(prefill), sequences * prompt / median(prefill_cpu));
    std::printf("decode %d x %d: %.1f tokens/s, %.1f per CPU second\n", sequences, generate,
                sequences * generate / median(decode), sequences * generate / median(decode_cpu));
    Times one(*model.graph), many(*model.graph);
    bench.prompt(prompt, chunk, &many);
    for (int i = 0; i < generate; ++i) bench.step(prompt + i, 1, &one);
    std::printf("prefill by ops:\n");
    many.print();
    std::printf("decode by ops, all %d steps:\n", generate);
    one.print();
  } catch (const Exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
