#include "device/cpu/weights.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>

#include "core/checked.h"
#include "core/fail.h"
#include "core/guard.h"
#include "graph/op_io.h"
#include "quant/type_table.h"

namespace llminfer::cpu {
namespace {

constexpr std::uint64_t arena_alignment = 64;
constexpr std::int64_t read_bytes = std::int64_t{1} << 20;

/// Marks which forms of each weight the ops read.
struct Uses {
  core::Vector<PlacedWeight>& weights;

  void matrix(backend::WeightId id) { weights[static_cast<std::size_t>(id)].matrix = true; }
  void vector(backend::WeightId id) {
    if (id != backend::none) weights[static_cast<std::size_t>(id)].vector = true;
  }
  void operator()(const backend::Embed& op) { matrix(op.weight); }
  void operator()(const backend::MatMul& op) {
    matrix(op.weight);
    vector(op.bias);
  }
  void operator()(const backend::MoeMatMul& op) {
    matrix(op.weight);
    vector(op.bias);
  }
  template <class Op>
  void operator()(const Op& op) {
    for (backend::WeightId id : graph::io_of(backend::Op(op)).weights) vector(id);
  }
};

std::uint64_t place(std::uint64_t& bytes, std::uint64_t size) {
  const std::uint64_t at = bytes;
  bytes = core::align_up_or_fail(core::add_or_fail(bytes, size, "bytes of packed weights", ErrorCode::out_of_memory),
                                 arena_alignment, "bytes of packed weights", ErrorCode::out_of_memory);
  return at;
}

std::uint64_t product(std::int64_t a, std::int64_t b, std::int64_t c) {
  const char* what = "bytes of a packed weight";
  return static_cast<std::uint64_t>(
      core::mul_or_fail(core::mul_or_fail(a, b, what, ErrorCode::out_of_memory), c, what, ErrorCode::out_of_memory));
}

void place_weight(const backend::Weight& weight, PlacedWeight& placed, std::uint64_t& bytes) {
  const PanelLayout& layout = layout_of(weight.type);
  const std::optional<std::uint64_t> row =
      quant::try_row_bytes(weight.type, static_cast<std::uint64_t>(weight.columns));
  if (layout.empty() || !row || weight.columns <= 0 || weight.rows <= 0 || weight.experts <= 0) {
    core::fail(ErrorCode::unsupported_type, "weight {}: {} x {} x {} of type {}", weight.name, weight.experts,
               weight.rows, weight.columns, describe(weight.type).name);
  }
  // Bounds every product in packed_shape: at most 4.5 bytes a weight, 16 rows, and padding.
  product(weight.columns, 128, 1);
  placed.experts = weight.experts;
  if (placed.matrix) {
    placed.shape = packed_shape(weight.type, weight.rows, weight.columns);
    placed.slab = slab_format(weight.type);
    placed.panels_at = place(bytes, product(placed.shape.panels, placed.shape.panel_bytes, weight.experts));
  }
  if (placed.vector) {
    const std::uint64_t values = product(weight.columns, weight.rows, weight.experts);
    placed.values_at = place(bytes, product(static_cast<std::int64_t>(values), sizeof(float), 1));
  }
}

/// Rows of one weight that one thread reads at a time.
struct Chunk {
  backend::WeightId weight = 0;
  std::int64_t expert = 0;
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  bool matrix = true;
};

std::int64_t row_bytes_of(const backend::Weight& weight) {
  return static_cast<std::int64_t>(
      quant::try_row_bytes(weight.type, static_cast<std::uint64_t>(weight.columns)).value_or(0));
}

void add_chunks(const backend::Graph& graph, backend::WeightId id, bool matrix, core::Vector<Chunk>& chunks) {
  const backend::Weight& weight = graph.weights[static_cast<std::size_t>(id)];
  const std::int64_t panels = std::max<std::int64_t>(1, read_bytes / (row_bytes_of(weight) * panel_rows));
  const std::int64_t step = panels * panel_rows;
  for (std::int64_t e = 0; e < weight.experts; ++e) {
    for (std::int64_t r = 0; r < weight.rows; r += step) {
      chunks.push_back({id, e, r, std::min(step, weight.rows - r), matrix});
    }
  }
}

/// The state that the packing threads share.
class Packer {
 public:
  Packer(const backend::Graph& graph, const WeightPlan& plan, const backend::WeightReader& reader,
         const backend::CompileOptions& options, std::byte* arena, const std::shared_ptr<core::Memory>& memory)
      : graph_(graph), plan_(plan), reader_(reader), options_(options), arena_(arena), chunks_(memory) {
    for (std::size_t i = 0; i < plan.weights.size(); ++i) {
      if (plan.weights[i].matrix) add_chunks(graph, static_cast<backend::WeightId>(i), true, chunks_);
      if (plan.weights[i].vector) add_chunks(graph, static_cast<backend::WeightId>(i), false, chunks_);
    }
    for (const Chunk& chunk : chunks_) total_ += bytes_of(chunk);
  }

  std::size_t buffer_bytes() const {
    std::int64_t most = 1;
    for (const Chunk& chunk : chunks_) most = std::max(most, bytes_of(chunk));
    return static_cast<std::size_t>(most);
  }

  /// Takes chunks until none is left or somebody failed. `buffer` is this thread's own.
  void work(std::span<std::byte> buffer, bool first_thread) noexcept {
    while (!failed_.load(std::memory_order_relaxed)) {
      const std::size_t i = next_.fetch_add(1, std::memory_order_relaxed);
      if (i >= chunks_.size()) return;
      const Result<void> done = core::guard("compile", [&] { pack(chunks_[i], buffer, first_thread); });
      if (!done) fail(done.error());
    }
  }

  void rethrow() const {
    if (error_) throw Exception(*error_);
  }

 private:
  std::int64_t bytes_of(const Chunk& chunk) const {
    return chunk.rows * row_bytes_of(graph_.weights[static_cast<std::size_t>(chunk.weight)]);
  }

  void fail(const Error& error) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!error_) {
      try {
        error_ = error;
      } catch (...) {
        error_ = Error{error.code, {}, "compile", error.needed, error.available};
      }
    }
    failed_.store(true, std::memory_order_relaxed);
  }

  void pack(const Chunk& chunk, std::span<std::byte> buffer, bool first_thread) {
    if (options_.stop.stop_requested()) core::fail(ErrorCode::cancelled, "loading was cancelled");
    const backend::Weight& weight = graph_.weights[static_cast<std::size_t>(chunk.weight)];
    const PlacedWeight& placed = plan_.weights[static_cast<std::size_t>(chunk.weight)];
    const std::span<std::byte> rows = buffer.first(static_cast<std::size_t>(bytes_of(chunk)));
    const Result<void> read =
        reader_.read_rows(chunk.weight, chunk.expert * weight.rows + chunk.first_row, chunk.rows, rows);
    if (!read) throw Exception(read.error());
    if (chunk.matrix) {
      for (std::int64_t r = 0; r < chunk.rows; r += panel_rows) {
        const std::int64_t index = (chunk.first_row + r) / panel_rows;
        std::byte* panel = arena_ + (placed.panel(arena_, chunk.expert, index) - arena_);
        pack_panel(placed.shape, rows.data() + r * placed.shape.row_bytes,
                   static_cast<int>(std::min<std::int64_t>(panel_rows, chunk.rows - r)), panel);
      }
    } else {
      float* out = reinterpret_cast<float*>(arena_ + placed.values_at) +
                   (chunk.expert * weight.rows + chunk.first_row) * weight.columns;
      quant::find(weight.type)->unpack_row(rows.data(), out, static_cast<std::size_t>(chunk.rows * weight.columns));
    }
    const std::int64_t done = done_.fetch_add(bytes_of(chunk), std::memory_order_relaxed) + bytes_of(chunk);
    if (first_thread && options_.progress) options_.progress(static_cast<double>(done) / static_cast<double>(total_));
  }

  const backend::Graph& graph_;
  const WeightPlan& plan_;
  const backend::WeightReader& reader_;
  const backend::CompileOptions& options_;
  std::byte* arena_;
  core::Vector<Chunk> chunks_;
  std::int64_t total_ = 0;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::int64_t> done_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_{};
  std::optional<Error> error_{};
};

}  // namespace

WeightPlan plan_weights(const backend::Graph& graph, const std::shared_ptr<core::Memory>& memory) {
  WeightPlan plan{core::Vector<PlacedWeight>(graph.weights.size(), memory), 0};
  for (const backend::Op& op : graph.ops) std::visit(Uses{plan.weights}, op);
  for (std::size_t i = 0; i < plan.weights.size(); ++i) {
    if (plan.weights[i].matrix || plan.weights[i].vector) place_weight(graph.weights[i], plan.weights[i], plan.bytes);
  }
  return plan;
}

core::Buffer pack_weights(const backend::Graph& graph, const WeightPlan& plan, const backend::WeightReader& reader,
                          const backend::CompileOptions& options, core::ThreadPool& pool,
                          const std::shared_ptr<core::Memory>& memory) {
  core::Buffer arena = core::Buffer::make(
      memory, core::cast_or_fail<std::size_t>(plan.bytes, "bytes of packed weights", ErrorCode::out_of_memory));
  Packer packer(graph, plan, reader, options, arena.data(), memory);
  const std::size_t each = (packer.buffer_bytes() + 63) / 64 * 64;
  core::Buffer buffers =
      core::Buffer::make(memory, core::mul_or_fail(each, static_cast<std::size_t>(pool.threads()),
                                                   "bytes of reading buffers", ErrorCode::out_of_memory));
  core::parallel(pool, [&](int thread, int) noexcept {
    packer.work({buffers.data() + each * static_cast<std::size_t>(thread), each}, thread == 0);
  });
  packer.rethrow();
  if (options.progress) options.progress(1.0);
  return arena;
}

}  // namespace llminfer::cpu
