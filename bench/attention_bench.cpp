// The attention kernel of the CPU device alone, every thread on KV heads of its own. Single tokens: GB/s of the cache
// beside plain reading of as much memory, beside reading alone of the same blocks in the same order (the roof of where
// they lie), and with pages that stay in the processor's cache (the roof of the arithmetic). Prompts: GFLOPS beside the
// multiply-adds, or the products of bf16 where the kernels use them, that the processor can do; products of tiles (amx)
// beside those of vectors too. Rounds alternate; medians, of shares too.
//   attention_bench [isa=auto] [threads=0] [rounds=5] [megabytes=192] [all|decode|prefill]
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <llminfer/error.hpp>

#include "core/cpu_info.h"
#include "core/memory.h"
#include "core/thread_pool.h"
#include "device/cpu/kernels.h"
#include "device/cpu/peak.h"

using namespace llminfer;

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Query heads that share a KV head, KV heads, width of heads, layers.
struct Model {
  const char* name;
  int shared, heads, width, layers;
};
constexpr Model models[] = {{"SmolLM2 135M", 3, 3, 64, 30},
                            {"Qwen2.5 0.5B", 7, 2, 64, 24},
                            {"Gemma 3 270M", 4, 1, 256, 18},
                            {"Llama 3 8B", 4, 8, 128, 32}};

class Bench {
 public:
  Bench(const cpu::Kernels& kernels, const cpu::PeakLoops& loops, int threads, int rounds, int megabytes)
      : kernels_(kernels),
        loops_(loops),
        pool_(threads),
        rounds_(rounds),
        storage_bytes_(static_cast<std::size_t>(megabytes) << 20) {
    storage_ = core::Buffer::make(std::make_shared<core::Memory>(0, true), storage_bytes_ + 4096);
    std::mt19937 random(3);
    auto* halves = reinterpret_cast<std::uint16_t*>(storage_.data());
    for (std::size_t i = 0; i < storage_.size() / 2; ++i) {
      halves[i] = static_cast<std::uint16_t>((random() & 0x83ffU) | 0x3400U);  // +-0.25 .. 0.5
    }
  }

  /// One token after each number of tokens, with as many layers as the model has or find room.
  void decode(const Model& m, KvType type, int keys) {
    const std::int64_t block = cpu::k_block_bytes(type, m.width), layer = 2 * block * m.heads;
    keys = static_cast<int>(std::min<std::int64_t>(keys, static_cast<std::int64_t>(storage_bytes_) / layer * 32));
    const std::int64_t pages = (keys + 31) / 32;
    const std::int64_t room = static_cast<std::int64_t>(storage_bytes_) / (layer * pages);
    const std::int64_t layers = std::clamp<std::int64_t>(m.layers, 1, std::max<std::int64_t>(room, 1));
    std::vector<std::int32_t> table(static_cast<std::size_t>(pages));
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::int32_t>(i);
    const std::int64_t all = std::min(static_cast<std::int64_t>(storage_bytes_), layers * layer * pages);
    std::vector<std::int32_t> few(table.size());
    for (std::size_t i = 0; i < few.size(); ++i) few[i] = static_cast<std::int32_t>(i % 4);
    const auto attend = [&](const std::vector<std::int32_t>& pages_of, bool stay, int thread, int threads) {
      std::vector<float> q(static_cast<std::size_t>(m.shared * m.width), 0.25F), out(q.size());
      std::vector<float> scratch(cpu::attention_scratch(m.width, m.width));
      cpu::AttentionTask t = task(m, type, scratch.data());
      t.q = q.data();
      t.out = out.data();
      t.tokens = 1;
      t.position = t.last = keys - 1;
      t.pages = pages_of.data();
      t.page_bytes = layers * layer;
      const core::Share share = core::share_of(layers * m.heads, thread, threads);
      for (std::int64_t i = share.begin; i < share.end; ++i) {
        const std::int64_t at = stay ? share.begin : i;
        t.k_offset = at * 2 * block;
        t.v_offset = t.k_offset + block;
        kernels_.attention(t);
      }
    };
    std::vector<double> ours, plain, blocks, cached;
    for (int r = 0; r < rounds_; ++r) {
      ours.push_back(timed([&](int thread, int threads) { attend(table, false, thread, threads); }));
      plain.push_back(timed([&](int thread, int threads) {
        const core::Share share = core::share_of(all / 4096, thread, threads);
        sum_ += loops_.read(storage_.data() + share.begin * 4096,
                            static_cast<std::size_t>((share.end - share.begin) * 4096));
      }));
      blocks.push_back(timed([&](int thread, int threads) {
        const core::Share share = core::share_of(layers * m.heads, thread, threads);
        std::uint64_t sum = 0;
        for (std::int64_t i = share.begin; i < share.end; ++i) {
          sum += read_blocks(storage_.data() + i * 2 * block, block, pages, layers * layer);
        }
        sum_ += sum;
      }));
      cached.push_back(timed([&](int thread, int threads) { attend(few, true, thread, threads); }));
    }
    const auto share_of_plain = [&](const std::vector<double>& times) {
      std::vector<double> shares;
      for (std::size_t r = 0; r < times.size(); ++r) shares.push_back(100 * plain[r] / times[r]);
      return median(shares);
    };
    const auto rate = [&](const std::vector<double>& times) { return static_cast<double>(all) / median(times) * 1e-9; };
    std::printf(
        "%-13s %-5s one token after %5d: %5.1f GB/s; plain reading %5.1f: %3.0f %%; its blocks read alone %5.1f: %3.0f "
        "%%; "
        "from the cache %5.1f\n",
        m.name, std::string(to_string(type)).c_str(), keys, rate(ours), rate(plain), share_of_plain(ours), rate(blocks),
        share_of_plain(blocks), rate(cached));
  }

  /// All tokens of one prompt over all KV heads of a layer, twice as many heads as threads at least.
  void prefill(const Model& m, int tokens) {
    const KvType type = kernels_.default_kv;
    const bool pairs = type == KvType::bf16;  // then products are of bf16, else of floats
    const std::int64_t block = cpu::k_block_bytes(type, m.width), pages = (tokens + 31) / 32;
    std::vector<std::int32_t> table(static_cast<std::size_t>(pages));
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::int32_t>(i);
    const int tile = std::max(1, cpu::attention_rows / m.shared);
    // As of a model with 30 layers, if that fits.
    const std::int64_t page_bytes = std::min<std::int64_t>(
        60 * block * pool_.threads(), static_cast<std::int64_t>(storage_bytes_) / pages / 4096 * 4096);
    std::vector<double> ours, peak, vectors;
    const int heads = pool_.threads();
    const auto add_peak = [&](float (*loop)(std::int64_t), std::int64_t ops, std::vector<double>& peaks) {
      constexpr std::int64_t loops = 500'000;
      const double time = timed([&](int, int) { sum_ += static_cast<std::uint64_t>(loop(loops)); });
      peaks.push_back(static_cast<double>(loops * ops) * heads / time);
    };
    for (int r = 0; r < rounds_; ++r) {
      ours.push_back(timed([&](int thread, int) {
        std::vector<float> q(static_cast<std::size_t>(tile * m.shared * m.width), 0.25F), out(q.size());
        std::vector<float> scratch(cpu::attention_scratch(m.width, m.width));
        cpu::AttentionTask t = task(m, type, scratch.data());
        t.q = q.data();
        t.out = out.data();
        t.pages = table.data();
        t.page_bytes = page_bytes;
        t.k_offset = 2 * block * thread;
        t.v_offset = t.k_offset + block;
        for (int first = 0; first < tokens; first += tile) {
          t.tokens = std::min(tile, tokens - first);
          t.position = first;
          t.last = tokens - 1;
          kernels_.attention(t);
        }
      }));
      add_peak(pairs ? loops_.bf16 : loops_.f32, pairs ? loops_.bf16_ops : loops_.f32_ops, peak);
      if (tiles_) add_peak(vector_loops_.bf16, vector_loops_.bf16_ops, vectors);
    }
    const double work = 2.0 * m.shared * m.width * static_cast<double>(tokens) * (tokens + 1) * heads;
    const double rate = work / median(ours);
    std::printf("%-13s %-5s prompt of %5d:     %5.1f GFLOPS, %5.1f peak of %s: %3.0f %%", m.name, to_string(type),
                tokens, rate * 1e-9, median(peak) * 1e-9,
                tiles_  ? "bf16 tiles"
                : pairs ? "bf16 products"
                        : "multiply-adds",
                100 * rate / median(peak));
    if (tiles_) std::printf("; %5.1f of vectors: %3.0f %%", median(vectors) * 1e-9, 100 * rate / median(vectors));
    std::printf("\n");
  }

 private:
  /// Keys of four pages, then their values, and so on. While two blocks are read, the next two are asked for, a line of
  /// each in turn.
  static std::uint64_t read_blocks(const std::byte* at, std::int64_t block, std::int64_t pages,
                                   std::int64_t page_bytes) {
    std::uint64_t sum = 0;
    const auto find = [&](std::int64_t n) {
      n = std::min(n, pages * 2 - 1);
      const std::int64_t page = std::min(n / 8 * 4 + n % 4, pages - 1);
      return at + page * page_bytes + (n / 4 % 2 == 0 ? 0 : block);
    };
    for (std::int64_t n = 0; n < 2 * pages; ++n) {
      const std::byte *from = find(n), *first = find((n / 2 + 1) * 2), *second = find((n / 2 + 1) * 2 + 1);
      const std::int64_t half = n % 2 * (block / 2);
      for (std::int64_t i = 0; i < block; i += 64) {
        __builtin_prefetch((i / 64 % 2 == 0 ? first : second) + half + i / 128 * 64);
        std::uint64_t words[8];
        std::memcpy(words, from + i, sizeof words);
        for (const std::uint64_t w : words) sum ^= w;
      }
    }
    return sum;
  }

  cpu::AttentionTask task(const Model& m, KvType type, float* scratch) const {
    cpu::AttentionTask t;
    t.heads = m.shared;
    t.q_stride = t.out_stride = m.shared * m.width;
    t.scale = 0.125F;
    t.storage = storage_.data();
    t.k_type = t.v_type = type;
    t.k_bytes = cpu::k_block_bytes(type, m.width);
    t.v_bytes = cpu::v_block_bytes(type, m.width);
    t.k_width = t.v_width = m.width;
    t.scratch = scratch;
    return t;
  }

  double timed(const std::function<void(int, int)>& body) {
    double start = 0, end = 0;
    core::parallel(pool_, [&](int thread, int threads) noexcept {
      pool_.barrier(thread);
      if (thread == 0) start = now();
      body(thread, threads);
      pool_.barrier(thread);
      if (thread == 0) end = now();
    });
    return end - start;
  }

  const cpu::Kernels& kernels_;
  const cpu::PeakLoops& loops_;
  const bool tiles_ = std::string_view(kernels_.name) == "amx";
  const cpu::PeakLoops vector_loops_ = cpu::peak_loops_of("avx512bf16");
  core::ThreadPool pool_;
  int rounds_;
  std::size_t storage_bytes_;
  core::Buffer storage_{};
  std::atomic<std::uint64_t> sum_{0};
};

}  // namespace

int main(int argc, char** argv) {
  try {
    const cpu::Kernels kernels = cpu::choose_kernels(argc > 1 ? argv[1] : "auto");
    const int wanted = argc > 2 ? std::atoi(argv[2]) : 0;
    const cpu::PeakLoops loops = cpu::peak_loops_of(kernels.name);
    const int threads = wanted > 0 ? wanted : core::detect_cpu().cores.usable;
    std::printf("%s, %d threads\n", kernels.name, threads);
    Bench bench(kernels, loops, threads, argc > 3 ? std::atoi(argv[3]) : 5, argc > 4 ? std::atoi(argv[4]) : 192);
    const std::string_view what = argc > 5 ? argv[5] : "all";
    for (const Model& m : models) {
      if (what == "prefill") break;
      for (int keys : {512, 8192}) bench.decode(m, kernels.default_kv, keys);
      bench.decode(m, KvType::q8_0, 8192);
    }
    for (const Model& m : models) {
      if (what == "decode") break;
      for (int tokens : {512, 4096}) bench.prefill(m, tokens);
    }
  } catch (const Exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
