#include "commands.h"
#include "host/ceilings.h"
#include "kernels/attention_mma.h"
#include "kernels/attention_tiled.h"
#include "llminfer/weight_type.hpp"
#include "timed_product.h"

namespace gpu_check {
namespace {

constexpr WeightType types[] = {WeightType::q4_0,  WeightType::q4_1, WeightType::q5_0,   WeightType::q5_1,
                                WeightType::q8_0,  WeightType::q2_k, WeightType::q3_k,   WeightType::q4_k,
                                WeightType::q5_k,  WeightType::q6_k, WeightType::iq4_nl, WeightType::iq4_xs,
                                WeightType::mxfp4, WeightType::f16,  WeightType::bf16};

Json product_row(const Shared& engine, const ProductShape& s, const Options& options) {
  Product p(engine, s, options.tiny ? 0 : std::int64_t{256} << 20);
  const double seconds = median_seconds(engine, options.samples, [&] { return p.run_all(); }) / p.copies();
  const double bytes = static_cast<double>(p.weight_bytes()) + 2.0 * s.rows * static_cast<double>(s.columns_in) +
                       4.0 * s.rows * static_cast<double>(s.columns_out);
  const double operations = 2.0 * s.rows * static_cast<double>(s.columns_in * s.columns_out);
  Json row = {{"type", std::string(describe(s.type).name)},
              {"columns", s.columns_in},
              {"out", s.columns_out},
              {"rows", s.rows},
              {"microseconds", 1e6 * seconds},
              {"bytes_per_s", bytes / seconds},
              {"operations_per_s", operations / seconds}};
  if (options.copy > 0) row["share_of_copy"] = bytes / seconds / options.copy;
  if (options.tensor > 0) row["share_of_tensor"] = operations / seconds / options.tensor;
  return row;
}

/// The numbers of a step in which each sequence has `tokens` tokens behind `context` others.
struct Step {
  Step(const Shared& engine, int sequences, int context, int tokens) {
    const int pages_each = (context + tokens - 1 + kv_page) / kv_page;
    std::vector<std::int32_t> words;
    const auto add = [&](auto value_of, int n) {
      const std::size_t at = words.size();
      for (int i = 0; i < n; ++i) words.push_back(value_of(i));
      return at;
    };
    const std::size_t positions = add([&](int i) { return context + i % tokens; }, sequences * tokens);
    const std::size_t of = add([&](int i) { return i / tokens; }, sequences * tokens);
    const std::size_t last = add([&](int) { return context + tokens - 1; }, sequences);
    const std::size_t firsts = add([&](int i) { return i * tokens; }, sequences + 1);
    const std::size_t pages_at = add([&](int i) { return i * pages_each; }, sequences);
    const std::size_t longest = add([&](int) { return context + tokens; }, 1);
    pages = sequences * pages_each;
    const std::size_t numbers = add([](int i) { return i; }, pages);
    memory = Memory(engine, Memory::Kind::device, 4 * words.size());
    check(cudaMemcpy(memory.data(), words.data(), 4 * words.size(), cudaMemcpyHostToDevice), "copying a step");
    step.positions = memory.at<std::int32_t>(4 * positions);
    step.last = memory.at<std::int32_t>(4 * last);
    step.firsts = memory.at<std::int32_t>(4 * firsts);
    step.sequence_of = memory.at<std::int32_t>(4 * of);
    step.pages_at = memory.at<std::int32_t>(4 * pages_at);
    step.longest = memory.at<std::int32_t>(4 * longest);
    step.pages = memory.at<std::int32_t>(4 * numbers);
  }
  int pages = 0;
  Memory memory{};
  KvStep step{};
};

struct AttentionShape {
  KvType type;
  int width, group, sequences, context, tokens;  // tokens: of each sequence, behind `context` others
};

Json attention_row(const Shared& engine, const AttentionShape& s, const Options& options) {
  constexpr int kv_heads = 8;
  const int heads = kv_heads * s.group, rows = s.sequences * s.tokens;
  const Step step(engine, s.sequences, s.context, s.tokens);
  const std::int64_t block = kv_block_bytes(s.type, s.width), page = 2 * kv_heads * block;
  const Memory cache = filled(engine, page * step.pages);
  const Memory q = filled(engine, std::int64_t{4} * rows * heads * s.width);
  const Memory out = filled(engine, std::int64_t{4} * rows * heads * s.width);
  const Memory partials = filled(engine, 4 * attention_partial_floats(rows, s.context + 1, heads, s.width) + 16);
  AttentionParams p;
  p.q = q.at<float>(0);
  p.out = out.at<float>(0);
  p.k = {cache.data(), page, 0, block, s.width, s.type};
  p.v = {cache.data(), page, kv_heads * block, block, s.width, s.type};
  p.step = step.step;
  p.tokens = rows;
  p.heads = heads;
  p.kv_heads = kv_heads;
  p.scale = 0.125F;
  const std::int64_t merges_bytes = 4 * attention_merges(rows, attention_head_blocks(heads, kv_heads));
  const Memory merges = filled(engine, merges_bytes);
  check(cudaMemsetAsync(merges.data(), 0, static_cast<std::size_t>(merges_bytes), engine->stream()), "counters");
  AttentionRoom room;
  room.ranges = attention_ranges(p.tokens, attention_head_blocks(heads, kv_heads), s.context + 1);
  room.partials = partials.at<float>(0);
  room.merges = merges.at<unsigned>(0);
  const int each = attention_tile_tokens(s.group);
  const AttentionTiles tiles{s.sequences, s.sequences * ((s.tokens + each - 1) / each)};
  const bool tiled = s.tokens > attention_few_tokens;
  const double seconds = median_seconds(engine, options.samples, [&] {
    return tiled ? launch_attention_tiled(p, tiles, engine->stream()) : launch_attention_mma(p, room, engine->stream());
  });
  const double keys = s.context + (s.tokens + 1) / 2.0;  // that a token sees, by the mean
  const double bytes = 2.0 * static_cast<double>(block) / kv_page * kv_heads * (s.context + s.tokens) * s.sequences;
  const double operations = 4.0 * rows * heads * s.width * keys;
  Json row = {{"cache", to_string(s.type)},
              {"head", s.width},
              {"group", s.group},
              {"sequences", s.sequences},
              {"context", s.context},
              {"tokens", s.tokens},
              {"microseconds", 1e6 * seconds},
              {"bytes_per_s", bytes / seconds},
              {"operations_per_s", operations / seconds}};
  if (options.copy > 0 && !tiled) row["share_of_copy"] = bytes / seconds / options.copy;
  if (options.tensor > 0 && tiled) row["share_of_tensor"] = operations / seconds / options.tensor;
  return row;
}

}  // namespace

bool ceilings(const Shared& engine, const Options& options, Json& out) {
  CeilingsPlan plan;
  plan.seconds = options.seconds;
  if (options.tiny) plan = {std::uint64_t{1} << 16, 2, 0, 2};
  const Ceilings c = measure_ceilings(engine, plan);
  const ThreadCeilings& all = c.all();
  const auto rate = [](const MeasuredRate& r) { return Json{{"best", r.best}, {"spread", r.spread}}; };
  out = {{"read_bytes_per_s", rate(all.read)},
         {"copy_bytes_per_s", rate(all.copy)},
         {"bf16_operations_per_s", rate(all.bf16)},
         {"busy", c.busy}};
  return all.read.best > 0 && all.copy.best > 0 && all.bf16.best > 0;
}

bool products(const Shared& engine, const Options& options, Json& out) {
  std::vector<int> rows = options.rows;
  if (rows.empty()) rows = options.tiny ? std::vector<int>{1, 8} : std::vector<int>{1, 2, 4, 8, 16, 32, 64, 512};
  std::vector<std::pair<std::int64_t, std::int64_t>> shapes{{2048, 2048}, {4096, 14336}, {14336, 4096}};
  if (options.tiny) shapes = {{512, 64}};
  if (!options.shape.empty()) shapes = {{options.shape[0], options.shape[1]}};
  Json list = Json::array(), without = Json::array();
  for (const WeightType type : types) {
    const std::string name(describe(type).name);
    if (name.find(options.filter) == std::string::npos) continue;
    if (!has_fragments(type)) {
      without.push_back(name);
      continue;
    }
    for (const auto& [columns, wide] : shapes) {
      for (const int r : rows) list.push_back(product_row(engine, {type, columns, wide, r}, options));
    }
  }
  out = {{"products", list}, {"types_without_tensor_cores", without}};
  return !list.empty();
}

bool attention(const Shared& engine, const Options& options, Json& out) {
  Json list = Json::array();
  for (const KvType type : {KvType::f16, KvType::bf16, KvType::q8_0, KvType::q4_0}) {
    for (const int width : {64, 128, 256}) {
      for (const int sequences : {1, 8, 32}) {
        for (const int context : options.tiny ? std::vector<int>{40} : std::vector<int>{1024, 8192, 32768}) {
          if (options.tiny && (sequences > 1 || width > 128 || type != KvType::f16)) continue;
          if (std::int64_t{width} * sequences * context > std::int64_t{128} * 32 * 8192) continue;
          if (type != KvType::f16 && (width != 128 || context == 1024)) continue;
          list.push_back(attention_row(engine, {type, width, 4, sequences, context, 1}, options));
        }
      }
      for (const int tokens : options.tiny ? std::vector<int>{20} : std::vector<int>{512, 4096}) {
        if (width > 128 || (options.tiny && (width > 64 || type != KvType::f16))) continue;
        list.push_back(attention_row(engine, {type, width, 4, 1, 0, tokens}, options));
      }
    }
  }
  out = {{"attention", list}};
  return true;
}

}  // namespace gpu_check
