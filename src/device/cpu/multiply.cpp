// Order of loops: chunks of columns that stay in the L2 cache; in each, panels; of a panel, slabs that stay in L1
// one after the other; a slab is unpacked once and meets all columns of the chunk, a few at a time. One or a few
// columns: no slab where the format has a direct kernel. A result's sum over k goes on from slab to slab in one order
// and never depends on what other columns or panels there are.
#include "device/cpu/multiply.h"

#include <algorithm>
#include <cstring>

namespace llminfer::cpu {
namespace {

constexpr std::int64_t most_asked = 1024 * 1024;
constexpr std::size_t slab_part = 20 * 1024;  // bytes of a slab that stay in the L1 cache

/// Results of one panel for a few columns go straight to the output when the panel is whole, else through here; so do
/// those of columns of a group that are not there.
struct Spill {
  alignas(64) float values[std::max({real_rows, few_columns, group_columns})][panel_rows];
};

std::int64_t bytes_a_column(const Kernels& kernels, const PlacedWeight& weight) noexcept {
  if (weight.slab.kind == SlabKind::real) return 4 * weight.shape.columns;
  const bool widened = weight.slab.kind == SlabKind::byte && kernels.least_grouped == 0;
  return widened ? 2 * weight.shape.columns : weight.shape.columns;
}

/// Columns of a chunk: whole tiles of 4 and of 6.
std::int64_t chunk_columns(const Kernels& kernels, const PlacedWeight& weight) noexcept {
  return std::max<std::int64_t>(12, kernels.chunk_bytes / bytes_a_column(kernels, weight) / 12 * 12);
}

std::size_t slab_room(const PlacedWeight& weight) noexcept {
  return (slab_bytes(weight.slab.kind, weight.shape.columns) + 63) / 64 * 64;
}

/// Of how many panels, as a power of two, what comes is asked for in turn: these and the ones that are worked on stay
/// in the L2 cache.
int places_log2(const PackedShape& shape) noexcept {
  if (8 * shape.panel_bytes <= most_asked) return 2;
  return 4 * shape.panel_bytes <= most_asked ? 1 : 0;
}

class Multiplier {
 public:
  Multiplier(const Kernels& kernels, const PlacedWeight& weight, const Columns& columns, const float* bias,
             std::byte* scratch, GroupsMade* made) noexcept
      : kernels_(kernels),
        weight_(weight),
        columns_(columns),
        bias_(bias),
        slab_(scratch),
        made_(made),
        places_log2_(places_log2(weight.shape)) {
    std::int16_t* const room = reinterpret_cast<std::int16_t*>(scratch + slab_room(weight));
    groups_ = reinterpret_cast<ColumnGroup*>(scratch + slab_room(weight));
    if (weight.slab.kind == SlabKind::byte) wide_ = room;
    if (kernels.shift[static_cast<int>(weight.slab.kind)] != nullptr) shift_ = room;
  }

  /// Before the panels of columns [first, last).
  void begin_chunk(std::int64_t first, std::int64_t last) noexcept {
    if (is_grouped(first, last)) {
      if (!is_made(first, last)) group(first, last);
      return;
    }
    const bool none = is_one(first, last) || (is_few(first, last) && !kernels_.few_wide);
    if (none || (wide_ == nullptr && shift_ == nullptr)) {
      if (made_ != nullptr) *made_ = {};  // slabs may overwrite what another product made
      return;
    }
    if (is_made(first, last)) return;
    const std::int64_t k = weight_.shape.columns;
    for (std::int64_t c = first; c < last; ++c) {
      const std::int8_t* q = columns_.quant.row(in_row(c)).q;
      if (wide_ != nullptr) kernels_.widen(q, k, wide_ + (c - first) * k);
      if (shift_ != nullptr) {
        kernels_.shift[static_cast<int>(weight_.slab.kind)](q, k, weight_.slab.zero,
                                                            shift_ + (c - first) * shift_width());
      }
    }
  }

  /// Whether panels of these columns are unpacked for groups.
  bool takes_group_tiles(std::int64_t first, std::int64_t last) const noexcept {
    return is_grouped(first, last) && last - first > kernels_.most_grouped_panel[type_index()];
  }

  /// All panels of a range, of columns [first, last).
  void panels(const std::byte* packed, const PanelRange& range, std::int64_t first, std::int64_t last) noexcept {
    begin_ = range.begin;
    const std::int64_t at_once = is_one(first, last) ? gemv_panels : 1;
    for (std::int64_t p = range.begin; p < range.end; p += at_once, packed += at_once * weight_.shape.panel_bytes) {
      if (at_once > 1) {
        one(packed, p, range, first);
      } else {
        panel(packed, p, first, last);
      }
    }
  }

 private:
  void panel(const std::byte* packed, std::int64_t index, std::int64_t first, std::int64_t last) noexcept {
    if (weight_.slab.kind == SlabKind::real) {
      real(packed, index, first, last);
    } else if (is_grouped(first, last)) {
      grouped(packed, index, first, last);
    } else if (is_few(first, last)) {
      few(packed, index, first, last);
    } else {
      quantized(packed, index, first, last);
    }
  }
  int type_index() const noexcept { return static_cast<int>(weight_.shape.type); }
  bool is_one(std::int64_t first, std::int64_t last) const noexcept {
    return last - first == 1 && kernels_.gemv[type_index()] != nullptr;
  }
  bool is_few(std::int64_t first, std::int64_t last) const noexcept {
    return last - first <= kernels_.most_few[type_index()] && kernels_.few[type_index()] != nullptr;
  }
  bool is_grouped(std::int64_t first, std::int64_t last) const noexcept {
    return weight_.slab.kind != SlabKind::real && kernels_.least_grouped > 0 && last - first >= kernels_.least_grouped;
  }
  /// What groups of columns [first, last) meet.
  SlabFormat grouped_slab(std::int64_t first, std::int64_t last) const noexcept {
    const SlabFormat other = kernels_.grouped_slab[type_index()];
    return other.kind != SlabKind::real && takes_group_tiles(first, last) ? other : weight_.slab;
  }
  std::int64_t shift_width() const noexcept { return weight_.shape.columns / 32 * shift_words; }
  std::int64_t in_row(std::int64_t c) const noexcept { return columns_.in_rows != nullptr ? columns_.in_rows[c] : c; }
  float* out_at(std::int64_t c, std::int64_t index) const noexcept {
    const std::int64_t row = columns_.out_rows != nullptr ? columns_.out_rows[c] : c;
    return columns_.out + row * columns_.out_width + (index - columns_.out_panel) * panel_rows;
  }
  int rows_in(std::int64_t index) const noexcept {
    return static_cast<int>(std::min<std::int64_t>(panel_rows, weight_.shape.rows - index * panel_rows));
  }

  /// Copies out of the spill if the panel is not whole, adds the bias.
  void finish(std::int64_t c, std::int64_t index, const float* from) noexcept {
    float* out = out_at(c, index);
    const int rows = rows_in(index);
    if (from != out) std::memcpy(out, from, sizeof(float) * static_cast<std::size_t>(rows));
    if (bias_ != nullptr) {
      for (int r = 0; r < rows; ++r) out[r] += bias_[index * panel_rows + r];
    }
  }

  /// Asks for part `index` of `count` of the panel behind this one: its bytes come while this one is multiplied.
  void prefetch_next(const std::byte* packed, std::int64_t index, std::int64_t count) const noexcept {
    const std::byte* next = packed + weight_.shape.panel_bytes;
    const std::int64_t lines = weight_.shape.panel_bytes / static_cast<std::int64_t>(line_bytes);
    for (std::int64_t i = lines * index / count; i < lines * (index + 1) / count; ++i) {
      __builtin_prefetch(next + i * static_cast<std::int64_t>(line_bytes), 0, 2);
    }
  }

  /// Input and output of columns [c, c + count), results through the spill if the panel is not whole. k begins at
  /// block `block` of 32.
  void tile_of(QuantColumn* tile, std::int64_t index, std::int64_t first, std::int64_t c, int count, bool whole,
               std::int64_t block) noexcept {
    for (int i = 0; i < count; ++i) {
      const QuantRow row = columns_.quant.row(in_row(c + i));
      tile[i] = {row.q + 32 * block,   row.d + block, row.sum + block,
                 row.half + 2 * block, nullptr,       whole ? out_at(c + i, index) : spill_.values[i]};
      if (wide_ != nullptr) tile[i].wide = wide_ + (c + i - first) * weight_.shape.columns + 32 * block;
      if (shift_ != nullptr) tile[i].shift = shift_ + (c + i - first) * shift_width() + shift_words * block;
    }
  }

  /// How tiles share the lines of the panel behind the one they multiply, at most `most` to each for a block of 32.
  struct AheadShares {
    std::int64_t step = 0;  // bytes of a block
    std::int64_t each = 0;  // of a tile's share, for a block
    std::int64_t stride = 0;
  };
  AheadShares ahead_shares(std::int64_t tiles, std::int64_t most) const noexcept {
    const std::int64_t line = static_cast<std::int64_t>(line_bytes);
    const std::int64_t step = weight_.shape.panel_bytes / (weight_.shape.columns / 32);
    const std::int64_t lines = std::min<std::int64_t>(most, (step + line * tiles - 1) / (line * tiles));
    return {step, lines * line, lines > 1 ? line : 0};
  }
  /// What tile `tile` should fetch. `from`: what the first one does.
  Ahead ahead(const AheadShares& shares, const std::byte* from, std::int64_t tile) const noexcept {
    if (tile * shares.each >= shares.step) return {slab_, 0, 0};  // this thread's own, in the cache
    return {from + tile * shares.each, shares.step, shares.stride};
  }
  /// What goes with block `block` of 32 of a panel that is unpacked: the panel behind it. That leaves memory more time
  /// than it needs.
  const std::byte* next_panel(const AheadShares& shares, const std::byte* packed, std::int64_t block) const noexcept {
    return packed + weight_.shape.panel_bytes + block * shares.step;
  }
  /// What a panel as it lies packed begins with: the panels behind a few of them come while these are worked on, its
  /// `units` of `step` bytes one after the other, each in all of the panels.
  const std::byte* next_panels(std::int64_t step, std::int64_t units, const std::byte* packed,
                               std::int64_t index) const noexcept {
    const std::int64_t panel = panel_of_few(index), unit = panel * units;
    const std::int64_t first = (std::int64_t{1} << places_log2_) - panel;
    return packed + (first + place_of(unit)) * weight_.shape.panel_bytes + (unit >> places_log2_) * step;
  }
  AheadPlaces ahead_places(std::int64_t step, std::int64_t units, std::int64_t index) const noexcept {
    const std::int64_t bytes = weight_.shape.panel_bytes, others = (std::int64_t{1} << places_log2_) - 1;
    const std::int64_t place = place_of(panel_of_few(index) * units);
    return {bytes, step - others * bytes, static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(others)};
  }
  std::int64_t panel_of_few(std::int64_t index) const noexcept { return place_of(index - begin_); }
  std::int64_t place_of(std::int64_t i) const noexcept { return i & ((std::int64_t{1} << places_log2_) - 1); }

  /// Panels from index `index` on, of those in the range as many as go at a time, times one column.
  void one(const std::byte* packed, std::int64_t index, const PanelRange& range, std::int64_t column) noexcept {
    const auto most = std::int64_t{gemv_panels};
    GemvArgs args;
    args.shape = &weight_.shape;
    args.panel = packed;
    args.panels = static_cast<int>(std::min(most, range.end - index));
    args.next_panels = static_cast<int>(std::min(most, range.end + range.behind - index - args.panels));
    tile_of(&args.column, index, column, column, 1, false, 0);
    for (int i = 0; i < args.panels; ++i) {
      args.out[i] = rows_in(index + i) == panel_rows ? out_at(column, index + i) : spill_.values[i];
    }
    kernels_.gemv[type_index()](args);
    for (int i = 0; i < args.panels; ++i) finish(column, index + i, args.out[i]);
  }

  void few(const std::byte* packed, std::int64_t index, std::int64_t first, std::int64_t last) noexcept {
    const std::int64_t each = kernels_.few_columns;
    const std::int64_t tiles = (last - first + each - 1) / each;
    const AheadShares shares = ahead_shares(tiles, 9);
    const std::byte* next = next_panels(shares.step, weight_.shape.columns / 32, packed, index);
    QuantColumn tile[few_columns];
    for (std::int64_t t = 0, c = first; c < last; ++t, c += each) {
      const int count = static_cast<int>(std::min(each, last - c));
      tile_of(tile, index, first, c, count, rows_in(index) == panel_rows, 0);
      kernels_.few[type_index()]({&weight_.shape, packed, tile, count, tiles == 1, ahead(shares, next, t),
                                  ahead_places(shares.step, weight_.shape.columns / 32, index)});
      for (int i = 0; i < count; ++i) finish(c + i, index, tile[i].out);
    }
  }

  void quantized(const std::byte* packed, std::int64_t index, std::int64_t first, std::int64_t last) noexcept {
    const bool whole = rows_in(index) == panel_rows;
    const std::int64_t in_block = weight_.shape.columns / weight_.shape.blocks;
    const std::int64_t step = slab_blocks(whole, weight_.slab.kind);
    const std::int64_t tiles = (last - first + tile_columns - 1) / tile_columns;
    const AheadShares shares = ahead_shares(tiles, 3);
    QuantColumn tile[tile_columns];
    for (std::int64_t b = 0; b < weight_.shape.blocks; b += step) {
      const std::int64_t blocks = std::min(step, weight_.shape.blocks - b), at = b * in_block / 32;
      kernels_.unpack[type_index()](unpack_args(weight_.shape, packed, b, blocks, slab_));
      for (std::int64_t t = 0, c = first; c < last; ++t, c += tile_columns) {
        const int count = static_cast<int>(std::min<std::int64_t>(tile_columns, last - c));
        tile_of(tile, index, first, c, count, whole, at);
        kernels_.tile[static_cast<int>(weight_.slab.kind)]({slab_, blocks * in_block / 32, weight_.slab.zero, tile,
                                                            count, b > 0,
                                                            ahead(shares, next_panel(shares, packed, at), t)});
        if (b + blocks < weight_.shape.blocks) continue;
        for (int i = 0; i < count; ++i) finish(c + i, index, tile[i].out);
      }
    }
  }

  /// Columns of each of the groups of nearly equal size that there are of [first, last).
  static std::int64_t in_group(std::int64_t first, std::int64_t last) noexcept {
    const std::int64_t groups = groups_of(first, last);
    return (last - first + groups - 1) / groups;
  }
  static std::int64_t groups_of(std::int64_t first, std::int64_t last) noexcept {
    return (last - first + group_columns - 1) / group_columns;
  }

  /// Whether what kernels want of [first, last) beside the rows is there; from now on it is.
  bool is_made(std::int64_t first, std::int64_t last) noexcept {
    if (made_ == nullptr) return false;
    if (columns_.in_rows != nullptr) {
      *made_ = {};
      return false;
    }
    const SlabFormat format = is_grouped(first, last) ? grouped_slab(first, last) : weight_.slab;
    const GroupsMade now{columns_.quant.q, first, last, reinterpret_cast<const std::byte*>(groups_), format};
    const bool made = made_->q == now.q && made_->first == first && made_->last == last && made_->at == now.at &&
                      made_->format.kind == now.format.kind && made_->format.zero == now.format.zero;
    *made_ = now;
    return made;
  }

  void group(std::int64_t first, std::int64_t last) noexcept {
    const std::int64_t blocks = weight_.shape.columns / 32, each = in_group(first, last);
    QuantColumn columns[group_columns];
    ColumnGroup* to = groups_;
    for (std::int64_t c = first; c < last; c += each, to += blocks) {
      const int count = static_cast<int>(std::min(each, last - c));
      tile_of(columns, 0, first, c, count, false, 0);
      group_columns_of(columns, count, blocks, grouped_slab(first, last), to);
    }
  }

  /// A panel and the columns that it meets.
  struct PanelColumns {
    const std::byte* packed;
    std::int64_t index;
    std::int64_t first;
    std::int64_t last;
    std::int64_t each;  // of a group
  };

  void grouped(const std::byte* packed, std::int64_t index, std::int64_t first, std::int64_t last) noexcept {
    GroupArgs args;
    args.shape = &weight_.shape;
    args.alone = groups_of(first, last) == 1;
    args.group_step = weight_.shape.columns / 32;
    const PanelColumns of{packed, index, first, last, in_group(first, last)};
    if (!takes_group_tiles(first, last)) {
      args.from = packed;
      const AheadShares shares = ahead_shares(groups_of(first, last), 9);
      args.places = ahead_places(shares.step, weight_.shape.columns / 32, index);
      return each_group(kernels_.group_panel[type_index()], args, shares, of,
                        {0, true, next_panels(shares.step, weight_.shape.columns / 32, packed, index)});
    }
    const auto from_panel = kernels_.panel_tile[type_index()];
    const SlabKind kind = grouped_slab(first, last).kind;
    const auto run = from_panel != nullptr ? from_panel : kernels_.group_tile[static_cast<int>(kind)];
    const auto own_unpack = kernels_.unpack_grouped[type_index()];
    const auto unpack = own_unpack != nullptr ? own_unpack : kernels_.unpack[type_index()];
    const AheadShares shares = ahead_shares(groups_of(first, last), 3);
    const std::int64_t in_block = weight_.shape.columns / weight_.shape.blocks;
    // Its levels are bytes, whatever they are elsewhere.
    const bool narrow = (own_unpack != nullptr || from_panel != nullptr) && kind == SlabKind::byte;
    const std::int64_t step = slab_blocks(rows_in(index) == panel_rows, narrow ? SlabKind::five : kind);
    args.from = slab_;
    for (std::int64_t b = 0; b < weight_.shape.blocks; b += step) {
      const std::int64_t blocks = std::min(step, weight_.shape.blocks - b);
      const UnpackArgs part = unpack_args(weight_.shape, packed, b, blocks, slab_);
      if (from_panel != nullptr) {
        args.from = part.words;
        args.small = part.small;
      } else {
        unpack(part);
      }
      args.blocks = blocks * in_block / 32;
      args.add = b > 0;
      const std::int64_t block = b * in_block / 32;
      each_group(run, args, shares, of, {block, b + blocks == weight_.shape.blocks, next_panel(shares, packed, block)});
    }
  }

  /// Which part of a panel the groups meet.
  struct PanelPart {
    std::int64_t block;     // of 32, the first one
    bool complete;          // it is the last part
    const std::byte* next;  // of what comes the first group's share
  };

  /// Runs the kernel for all groups of columns. The arguments are filled in place: copies of what was just written
  /// would wait for all stores before them, and these are the results of the groups before.
  void each_group(void (*run)(const GroupArgs&), GroupArgs& args, const AheadShares& shares, const PanelColumns& of,
                  const PanelPart& part) noexcept {
    const bool whole = rows_in(of.index) == panel_rows;
    const std::int64_t each = of.each, groups = groups_of(of.first, of.last);
    const std::int64_t at_once = whole ? most_groups : 1;  // there is one spill
    GroupTarget targets[most_groups];
    args.targets = targets;
    args.columns = groups_ + part.block;
    args.count = static_cast<int>(each);
    for (std::int64_t g = 0, c = of.first; c < of.last; c += each * args.groups) {
      args.groups = static_cast<int>(std::min(groups - g, at_once));
      for (int i = 0; i < args.groups; ++i, ++g) target(targets[i], shares, of, part.next, g);
      run(args);
      if (part.complete && (!whole || bias_ != nullptr)) finish_groups(targets, args.groups, of, c);
      args.columns += args.group_step * args.groups;
    }
  }

  /// Of group g. Lines of results of all columns in turn are as far from each other, or as a list says.
  void target(GroupTarget& to, const AheadShares& shares, const PanelColumns& of, const std::byte* next,
              std::int64_t g) noexcept {
    const bool whole = rows_in(of.index) == panel_rows;
    const std::int64_t c = of.first + g * of.each;
    const int there = whole ? static_cast<int>(std::min(of.each, of.last - c)) : 0;
    if (columns_.out_rows != nullptr) {
      for (int i = 0; i < there; ++i) to.out[i] = out_at(c + i, of.index);
    } else if (there > 0) {
      float* out = out_at(c, of.index);
      for (int i = 0; i < there; ++i, out += columns_.out_width) to.out[i] = out;
    }
    for (int i = there; i < group_columns; ++i) to.out[i] = spill_.values[i];
    to.ahead = ahead(shares, next, g);
  }

  void finish_groups(const GroupTarget* targets, int groups, const PanelColumns& of, std::int64_t c) noexcept {
    for (int g = 0; g < groups; ++g) {
      for (std::int64_t i = 0; i < of.each && c < of.last; ++i, ++c) finish(c, of.index, targets[g].out[i]);
    }
  }

  /// Blocks of the layout in a slab. Of a panel that is not whole all of them: results stay in the spill.
  std::int64_t slab_blocks(bool whole, SlabKind kind) const noexcept {
    if (!whole) return weight_.shape.blocks;
    const std::int64_t in_block = weight_.shape.columns / weight_.shape.blocks;
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(slab_part / slab_bytes(kind, in_block)));
  }

  void real(const std::byte* packed, std::int64_t index, std::int64_t first, std::int64_t last) noexcept {
    const bool whole = rows_in(index) == panel_rows;
    const auto half_rows = kernels_.half_rows[type_index()];
    if (half_rows != nullptr && last - first <= half_rows_most && weight_.shape.columns % 2 == 0) {
      const float* rows[half_rows_most];
      float* results[half_rows_most];
      const int count = static_cast<int>(last - first);
      for (int i = 0; i < count; ++i) {
        rows[i] = columns_.real + in_row(first + i) * columns_.real_width;
        results[i] = whole ? out_at(first + i, index) : spill_.values[i];
      }
      const auto line = static_cast<std::int64_t>(line_bytes);
      const std::int64_t lines = weight_.shape.panel_bytes / line;
      half_rows(rows, packed, results, count, weight_.shape.columns, next_panels(line, lines, packed, index),
                ahead_places(line, lines, index));
      for (int i = 0; i < count; ++i) finish(first + i, index, results[i]);
      return;
    }
    const float* b = reinterpret_cast<const float*>(packed);
    if (weight_.shape.type != WeightType::f32) {
      kernels_.unpack[type_index()](unpack_args(weight_.shape, packed, 0, weight_.shape.blocks, slab_));
      b = reinterpret_cast<const float*>(slab_);
    }
    const float* in[real_rows];
    float* out[real_rows];
    for (std::int64_t c = first; c < last; c += real_rows) {
      const int count = static_cast<int>(std::min<std::int64_t>(real_rows, last - c));
      for (int i = 0; i < count; ++i) {
        in[i] = columns_.real + in_row(c + i) * columns_.real_width;
        out[i] = whole ? out_at(c + i, index) : spill_.values[i];
      }
      prefetch_next(packed, (c - first) / real_rows, (last - first + real_rows - 1) / real_rows);
      kernels_.real_tile(in, b, panel_rows, out, count, weight_.shape.columns, false);
      for (int i = 0; i < count; ++i) finish(c + i, index, out[i]);
    }
  }

  const Kernels& kernels_;
  const PlacedWeight& weight_;
  const Columns& columns_;
  const float* bias_;
  std::byte* slab_;
  GroupsMade* made_;
  ColumnGroup* groups_ = nullptr;  // of the chunk's columns, for kernels of groups
  std::int16_t* wide_ = nullptr;   // of the chunk's columns, for slabs of bytes
  std::int16_t* shift_ = nullptr;  // of the chunk's columns, where tiles want it
  std::int64_t begin_ = 0;         // of the panels
  int places_log2_;                // of how many panels what comes is asked for in turn
  Spill spill_;
};

}  // namespace

QuantRows QuantRows::at(std::byte* base, std::int64_t rows, std::int64_t width) noexcept {
  // Planes with the widest elements first, so that each is aligned.
  const std::int64_t blocks = width / 32;
  QuantRows out;
  out.width = width;
  out.d = reinterpret_cast<float*>(base);
  out.sum = out.d + rows * blocks;
  out.half = reinterpret_cast<std::int16_t*>(out.sum + rows * blocks);
  out.q = reinterpret_cast<std::int8_t*>(out.half + 2 * rows * blocks);
  return out;
}

std::size_t multiply_scratch(const Kernels& kernels, const PlacedWeight& weight) noexcept {
  if (weight.slab.kind == SlabKind::real) return slab_room(weight);
  // Of a column's block, by the kernels of any table; chunks are whole groups.
  const std::int64_t block_bytes = weight.slab.kind == SlabKind::byte && kernels.least_grouped == 0
                                       ? 64
                                       : (std::int64_t{sizeof(ColumnGroup)} + group_columns - 1) / group_columns;
  return slab_room(weight) +
         static_cast<std::size_t>(chunk_columns(kernels, weight) * (weight.shape.columns / 32) * block_bytes);
}

/// Parts of nearly equal size, of whole groups of 12.
std::int64_t columns_at_once(const Kernels& kernels, const PlacedWeight& weight, std::int64_t count) noexcept {
  const std::int64_t most = chunk_columns(kernels, weight), chunks = (count + most - 1) / most;
  return chunks > 1 ? ((count + chunks - 1) / chunks + 11) / 12 * 12 : most;
}

void multiply(const Kernels& kernels, const PlacedWeight& weight, const std::byte* arena, std::int64_t expert,
              PanelRange panels, const Columns& columns, const float* bias, std::byte* scratch,
              GroupsMade* made) noexcept {
  const std::int64_t few = columns_at_once(kernels, weight, columns.count), end = columns.first + columns.count;
  Multiplier multiplier(kernels, weight, columns, bias, scratch, made);
  for (std::int64_t c = columns.first; c < end; c += few) {
    const std::int64_t last = std::min(end, c + few);
    multiplier.begin_chunk(c, last);
    const bool tiles = multiplier.takes_group_tiles(c, last);
    if (tiles && kernels.begin_group_tiles != nullptr) kernels.begin_group_tiles();
    multiplier.panels(weight.panel(arena, expert, panels.begin), panels, c, last);
    if (tiles && kernels.end_group_tiles != nullptr) kernels.end_group_tiles();
  }
}

}  // namespace llminfer::cpu
