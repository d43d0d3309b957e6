// The table of functions that one instruction set provides. Chosen once, when the device opens. Results of every table
// are equal bit for bit: the portable one says what they are. Kernels neither allocate nor fail; shapes were checked at
// compile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include <llminfer/kv_type.hpp>

#include "device/cpu/panel_layout.h"
#include "device/cpu/slab.h"

namespace llminfer::cpu {

/// One activation row as quantized matmuls read it: int8 per 32 with an exact scale, x ~ d * q.
struct QuantRow {
  std::int8_t* q = nullptr;      ///< [k]
  float* d = nullptr;            ///< [k / 32]
  float* sum = nullptr;          ///< [k / 32]: d * sum of q
  std::int16_t* half = nullptr;  ///< [k / 32][2]: sums of q over each 16
};

/// One column of a matmul: an input row and where its 16 results of the panel go.
struct QuantColumn {
  const std::int8_t* q = nullptr;
  const float* d = nullptr;
  const float* sum = nullptr;
  const std::int16_t* half = nullptr;
  const std::int16_t* wide = nullptr;  ///< q widened by Kernels::widen; for slabs of bytes only
  float* out = nullptr;
  const std::int16_t* shift = nullptr;  ///< of Kernels::shift, where the tile has one
};

constexpr int tile_columns = 4;  ///< most columns of one tile
constexpr int few_columns = 8;   ///< most columns of one few call of any table
constexpr int shift_words = 4;
constexpr int group_columns = 12;

/// 32 values along k of twelve columns side by side, so that kernels find all of them behind one address. What `rest`
/// holds depends on what levels need of the activations (ColumnRest); columns that are not there are zeros.
struct alignas(32) ColumnGroup {
  std::int8_t q[group_columns][32];
  float d[group_columns];
  std::int32_t rest[2][group_columns];
};
/// zeros: [0] is -zero * sum of q; sums: [0] has the bits of QuantRow::sum; zeros_of_halves: [h] is -zero * sum of q
/// over half h; pairs: [0] is the two int16 of QuantRow::half.
enum class ColumnRest : std::uint8_t { zeros, sums, zeros_of_halves, pairs };

/// The group of `count` columns that meets slabs of a format, or its panels: one ColumnGroup for each of `blocks`
/// blocks of 32. Levels of bytes are taken as unsigned ones, 128 more.
void group_columns_of(const QuantColumn* columns, int count, std::int64_t blocks, SlabFormat format,
                      ColumnGroup* out) noexcept;
constexpr int real_rows = 6;  ///< most rows of one real_tile call
constexpr int half_rows_most = 4;
constexpr int kv_page = 32;  ///< tokens of a KV page

/// Queries of one sequence and one KV head against its pages: one unit of attention work. See attention.inc.
struct AttentionTask {
  const float* q = nullptr;  ///< row of token t, head h: q + t * q_stride + h * k_width
  float* out = nullptr;      ///< likewise with out_stride and v_width
  std::int64_t q_stride = 0;
  std::int64_t out_stride = 0;
  std::int32_t tokens = 0;
  std::int32_t heads = 0;     ///< query heads that share the KV head
  std::int32_t position = 0;  ///< of token 0
  std::int32_t last = 0;      ///< largest visible position of any query: the sequence's last when `full`
  bool full = false;          ///< every query sees all positions up to `last`
  std::int32_t window = 0;
  float scale = 1.0F;
  float cap = 0.0F;
  const float* sinks = nullptr;  ///< [heads] or null
  const std::int32_t* pages = nullptr;
  const std::byte* storage = nullptr;
  std::int64_t page_bytes = 0;
  std::int64_t k_offset = 0;  ///< of this layer's and head's keys in a page
  std::int64_t v_offset = 0;
  std::int64_t k_bytes = 0;  ///< of a block: k_block_bytes, v_block_bytes
  std::int64_t v_bytes = 0;
  KvType k_type = KvType::f16;
  KvType v_type = KvType::f16;
  std::int32_t k_width = 0;
  std::int32_t v_width = 0;
  float* scratch = nullptr;  ///< attention_scratch() floats

  /// A part of the keys: ranges [first_range, end_range) of attention_keys(). Then `states` gets what is found,
  /// attention_state_floats() for each range, or for all together where it is the first part.
  std::int32_t first_range = 0;
  std::int32_t end_range = std::numeric_limits<std::int32_t>::max();
  float* states = nullptr;

  /// What the thread will read after this task, if that is known: keys at `next_offset` of `next_count` pages.
  const std::int32_t* next_pages = nullptr;
  std::int32_t next_count = 0;
  std::int64_t next_offset = 0;
};

constexpr int attention_rows = 48;    ///< most tokens * heads of a task
constexpr int attention_block = 128;  ///< keys that the kernel takes at a time, counted from position 0

/// Of a query that sees `keys` keys: positions of a range, all of which share one softmax state. There are few ranges
/// (attention_ranges), so that states find room, and of short contexts they are short, so that they can be shared out.
constexpr std::int32_t attention_range(std::int32_t keys) noexcept {
  std::int32_t range = 128;
  while (keys > 32 * range) range *= 2;
  return range;
}
constexpr std::int32_t attention_ranges = 33;  ///< most that a query sees, the first and the last in part

/// Positions that the queries of a task see, [first, last], and how long a range is: equal for all of its tokens.
struct AttentionKeys {
  std::int32_t first = 0;
  std::int32_t last = 0;
  std::int32_t range = 0;
};

constexpr AttentionKeys attention_keys(const AttentionTask& t) noexcept {
  AttentionKeys keys;
  keys.last = t.full ? t.last : t.position + t.tokens - 1;
  std::int32_t seen = keys.last + 1;
  if (t.window > 0) {
    keys.first = t.position - t.window + 1 > 0 ? t.position - t.window + 1 : 0;
    seen = seen < t.window ? seen : t.window;
  }
  keys.range = attention_range(seen);
  return keys;
}

/// What parts of a task left behind, in the order of keys.
struct AttentionPart {
  const float* at = nullptr;
  std::int32_t states = 0;
};

/// Floats of a row of outputs inside the kernel.
constexpr std::int32_t attention_stride(std::int32_t v_width) noexcept { return (v_width + 15) / 16 * 16; }

/// Bytes of one head's 32 keys (values) of one page. See kernels/kv.inc.
constexpr std::int64_t k_block_bytes(KvType type, std::int32_t width) noexcept {
  const std::int64_t n = width, groups = (n + 31) / 32;
  if (type == KvType::f32) return 4 * kv_page * n;
  if (type == KvType::bf16) return 2 * kv_page * ((n + 1) / 2 * 2);
  return kv_page * (type == KvType::q8_0 ? 34 * groups : type == KvType::q4_0 ? 18 * groups : 2 * n);
}
constexpr std::int64_t v_block_bytes(KvType type, std::int32_t width) noexcept {
  return type == KvType::bf16 ? std::int64_t{2} * kv_page * attention_stride(width) : k_block_bytes(type, width);
}

/// Floats of one state of `rows` rows (tokens * heads).
constexpr std::int64_t attention_state_floats(std::int32_t rows, std::int32_t v_width) noexcept {
  return std::int64_t{rows} * (attention_stride(v_width) + 2);
}

/// Floats that a task of these widths needs.
std::size_t attention_scratch(std::int32_t k_width, std::int32_t v_width) noexcept;

/// Blocks [first, first + blocks) of a panel, in units of its layout.
struct UnpackArgs {
  const PackedShape* shape = nullptr;
  const std::byte* panel = nullptr;
  std::int64_t first = 0;
  std::int64_t blocks = 0;
  const std::byte* words = nullptr;  ///< of block `first`, in the panel's words plane
  const std::byte* small = nullptr;  ///< likewise in its small plane
  std::byte* slab = nullptr;
};

UnpackArgs unpack_args(const PackedShape& shape, const std::byte* panel, std::int64_t first, std::int64_t blocks,
                       std::byte* slab) noexcept;

/// Memory that will be read soon: with its block b of 32 a kernel asks for three cache lines, `stride` apart from
/// at + b * step on, so that they come while it computes. For nothing: an address that is in the cache, step and stride
/// 0.
struct Ahead {
  const std::byte* at = nullptr;
  std::int64_t step = 0;
  std::int64_t stride = 0;
};

/// In place of `step` where blocks ask at several places in turn: a core's prefetcher follows each page of 4 KiB by
/// itself, and memory gives a quarter more to several than to one.
struct AheadPlaces {
  std::int64_t across = 0;  ///< from one place to the next
  std::int64_t back = 0;    ///< from the last place to what follows at the first
  std::uint32_t block = 0;  ///< place of `at`
  std::uint32_t mask = 0;   ///< places - 1

  /// For a call that asks for `ahead`: one that asks for nothing stays where it is.
  AheadPlaces of(const Ahead& ahead) const noexcept { return ahead.step != 0 ? *this : AheadPlaces{}; }

  /// From what one block asks for to what the next one does.
  std::int64_t next() noexcept { return (++block & mask) == 0 ? back : across; }
};

struct TileArgs {
  const std::byte* slab = nullptr;
  std::int64_t blocks = 0;  ///< of 32, columns begin at the first
  int zero = 0;
  const QuantColumn* columns = nullptr;
  int count = 0;     ///< 1 .. tile_columns
  bool add = false;  ///< results go on from what stands in `out`
  Ahead ahead{};
};

constexpr int gemv_panels = 4;  ///< most panels of one gemv call

/// Panels that lie one behind the other, times one column.
struct GemvArgs {
  const PackedShape* shape = nullptr;
  const std::byte* panel = nullptr;  ///< the first one
  int panels = 0;                    ///< 1 .. gemv_panels
  QuantColumn column{};              ///< its `out` is not used
  float* out[gemv_panels] = {};      ///< 16 results of each
  int next_panels = 0;               ///< of those that lie behind them, how many are read next: 0 .. gemv_panels
};

struct FewArgs {
  const PackedShape* shape = nullptr;
  const std::byte* panel = nullptr;
  const QuantColumn* columns = nullptr;
  int count = 0;       ///< 1 .. Kernels::few_columns
  bool alone = false;  ///< no other call for this panel: the kernel asks for all of `ahead`
  Ahead ahead{};       ///< stride 0: nothing to ask for; else as many lines as the kernel likes, next to each other
  AheadPlaces places{};
};

/// What a group of columns has of its own.
struct GroupTarget {
  float* out[group_columns];  ///< where 16 results of each column go, of those that are not there, too
  Ahead ahead;                ///< as in TileArgs and FewArgs
};

/// A slab or a panel times groups of columns.
struct GroupArgs {
  const PackedShape* shape = nullptr;  ///< of a panel
  const std::byte* from = nullptr;
  const std::byte* small = nullptr;      ///< of panel_tile: small fields of the first block
  std::int64_t blocks = 0;               ///< of 32, of a slab
  const ColumnGroup* columns = nullptr;  ///< of the first group, for each block of 32
  std::int64_t group_step = 0;           ///< from there to those of the next group
  const GroupTarget* targets = nullptr;  ///< [groups]
  AheadPlaces places{};                  ///< of a panel, for each group
  int groups = 1;                        ///< 1 .. most_groups
  int count = 0;                         ///< 1 .. group_columns, of each group
  bool add = false;                      ///< as in TileArgs
  bool alone = false;                    ///< as in FewArgs
};
constexpr int most_groups = 8;  ///< of one call: some, so that a call's beginning and end weigh little

struct Kernels {
  const char* name = "";
  std::int64_t chunk_bytes = 256 * 1024;  ///< of activations that meet a matrix together: half of a common L2 cache

  /// Blocks of a packed panel to a slab of slab_format(type).kind. Indexed by WeightType.
  void (*unpack[17])(const UnpackArgs& args) = {};
  /// Panels times one column, without a slab; null where there is none. Indexed by WeightType.
  void (*gemv[17])(const GemvArgs& args) = {};
  /// Panel times a few columns, without a slab; null where that is not faster. Indexed by WeightType.
  void (*few[17])(const FewArgs& args) = {};
  std::int64_t most_few[17] = {};  ///< columns up to which `few` is faster
  int few_columns = tile_columns;  ///< of one call
  bool few_wide = false;           ///< whether it reads QuantColumn::wide, for slabs of bytes
  /// Slab times a few columns. Indexed by SlabKind (real: null).
  void (*tile[slab_kinds])(const TileArgs& args) = {};
  /// Slab times a group of columns, indexed by SlabKind, and panel times a group, by WeightType; null, all of them:
  /// this table has none. The bits are those of `tile`.
  void (*group_tile[slab_kinds])(const GroupArgs& args) = {};
  void (*group_panel[17])(const GroupArgs& args) = {};
  /// Before and after calls of group_tile by a thread; null: nothing is to be done.
  void (*begin_group_tiles)() = nullptr;
  void (*end_group_tiles)() = nullptr;
  /// As `unpack`, to the slab that group_tile reads: of the same kind with signed levels, the zero taken off, or with
  /// levels that are multiplied by scales; null: that is the same one. Indexed by WeightType.
  void (*unpack_grouped[17])(const UnpackArgs& args) = {};
  /// What unpack_grouped makes, where that is of another kind or has another zero than slab_format says; else `real`.
  /// `zero` is what columns of groups take off.
  SlabFormat grouped_slab[17] = {};
  /// In place of group_tile, over the same blocks of a panel as they lie packed; null: there is none. Indexed by
  /// WeightType.
  void (*panel_tile[17])(const GroupArgs& args) = {};
  std::int64_t least_grouped = 0;            ///< columns from which groups are faster than `few`
  std::int64_t most_grouped_panel[17] = {};  ///< columns up to which group_panel is faster than a slab
  /// c[r][0..15] = (add ? c[r][0..15] : 0) + sum over k in rising order of a[r][k] * b[k * b_stride + 0..15], for
  /// 1 .. real_rows rows; one fma chain per result.
  void (*real_tile)(const float* const* a, const float* b, std::int64_t b_stride, float* const* c, int rows,
                    std::int64_t k, bool add) = nullptr;

  /// real_tile for a panel of 16-bit floats as it lies packed, without a slab: 1 .. half_rows_most rows, k even, from
  /// 0. `next`: what will be read soon, a line for each of the panel's, by `places`. Null where there is none. Indexed
  /// by WeightType.
  void (*half_rows[17])(const float* const* a, const std::byte* panel, float* const* c, int rows, std::int64_t k,
                        const std::byte* next, const AheadPlaces& places) = {};

  void (*quantize)(const float* in, std::int64_t n, const QuantRow& out) = nullptr;
  /// Levels as int16, those of each word in the order 0, 2, 1, 3: see SlabByte. n is a multiple of 32.
  void (*widen)(const std::int8_t* q, std::int64_t n, std::int16_t* out) = nullptr;
  /// Where tiles of a kind begin their int16 sums: for each block of 32 levels, shift_words numbers. Null: they want
  /// none. n is a multiple of 32; `zero`: the slab's.
  void (*shift[slab_kinds])(const std::int8_t* q, std::int64_t n, int zero, std::int16_t* out) = {};
  void (*rms_norm)(const float* in, const float* weight, float* out, std::int64_t n, float eps) = nullptr;
  void (*layer_norm)(const float* in, const float* weight, const float* bias, float* out, std::int64_t n,
                     float eps) = nullptr;
  void (*silu)(const float* gate, const float* up, float* out, std::int64_t n) = nullptr;
  void (*gelu_tanh)(const float* gate, const float* up, float* out, std::int64_t n) = nullptr;
  void (*swiglu_clip)(const float* gate, const float* up, float* out, std::int64_t n, float alpha,
                      float limit) = nullptr;
  void (*add)(const float* a, const float* b, float* out, std::int64_t n) = nullptr;
  void (*scale)(const float* in, float* out, std::int64_t n, float factor) = nullptr;
  /// out = fma(factor, in, out)
  void (*accumulate)(const float* in, float* out, std::int64_t n, float factor) = nullptr;
  /// The largest of n values: NaN if one of them is, minus infinity if there are none.
  float (*largest)(const float* in, std::int64_t n) = nullptr;
  void (*softcap)(const float* in, float* out, std::int64_t n, float cap) = nullptr;
  /// One head. `cosine`, `sine` [pairs]. In place allowed.
  void (*rope_half)(const float* in, float* out, const float* cosine, const float* sine, std::int64_t pairs) = nullptr;
  void (*rope_interleaved)(const float* in, float* out, const float* cosine, const float* sine,
                           std::int64_t pairs) = nullptr;
  /// out[i] = exp(in[i] - shift); returns the sum in a fixed order. `out` may be `in`.
  float (*exponentials)(const float* in, float* out, std::int64_t n, float shift) = nullptr;
  void (*sigmoid)(const float* in, float* out, std::int64_t n) = nullptr;

  /// The type of cache that `attention` reads fastest.
  KvType default_kv = KvType::f16;
  /// One token's key or value of one head into its page block; `token` 0 .. 31 is its place in the page.
  void (*store_k)(const float* in, KvType type, std::byte* block, std::int32_t width, int token) = nullptr;
  void (*store_v)(const float* in, KvType type, std::byte* block, std::int32_t width, int token) = nullptr;
  void (*attention)(const AttentionTask& task) = nullptr;
  /// The outputs of a task whose parts are all there.
  void (*merge_attention)(const AttentionTask& task, const AttentionPart* parts, int count) = nullptr;
};

/// The table of that name, filled for this processor; "auto": the best that it can run. Throws invalid_argument for an
/// unknown name, unavailable for one that this machine or build does not have.
Kernels choose_kernels(std::string_view name);

}  // namespace llminfer::cpu
