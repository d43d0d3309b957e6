#include "host/weights.h"

#include <algorithm>

#include "core/checked.h"
#include "core/fail.h"
#include "graph/op_io.h"
#include "host/errors.h"
#include "host/repack.h"
#include "kernels/experts.h"
#include "quant/type_table.h"

namespace llminfer::cuda {
namespace {

constexpr std::uint64_t align(std::uint64_t bytes) noexcept { return (bytes + 255) / 256 * 256; }

/// How a weight is used.
struct Uses {
  bool matmul = false;
  bool other = false;
};

std::vector<Uses> uses_of(const backend::Graph& graph) {
  std::vector<Uses> uses(graph.weights.size());
  for (const backend::Op& op : graph.ops) {
    const auto* product = std::get_if<backend::MatMul>(&op);
    const auto* experts = std::get_if<backend::MoeMatMul>(&op);
    for (const backend::WeightId id : graph::io_of(op).weights) {
      if (id == backend::none) continue;
      Uses& u = uses[static_cast<std::size_t>(id)];
      const bool matrix =
          (product != nullptr && id == product->weight) || (experts != nullptr && id == experts->weight);
      u.matmul = u.matmul || matrix;
      u.other = u.other || !matrix;
    }
  }
  return uses;
}

/// Rows in pieces of about this many bytes, so that a load can be cancelled and needs little memory of the host.
constexpr std::uint64_t piece = std::uint64_t{4} << 20;

class Loader {
 public:
  Loader(const backend::Graph& graph, const backend::WeightReader& reader, const backend::CompileOptions& options,
         const Memory& arena, Engine& engine)
      : graph_(graph), reader_(reader), options_(options), arena_(arena), engine_(engine) {}

  void load(backend::WeightId id, const PlacedWeight& w) {
    if (w.form == WeightForm::file) copy(id, w.offset, w.row_bytes);
    if (w.form == WeightForm::fragments) repack(id, w);
    if (w.copy != 0) copy(id, w.copy, w.row_bytes);
  }

 private:
  void read(backend::WeightId id, std::int64_t first, std::int64_t count, std::uint64_t row_bytes) {
    const backend::Weight& w = graph_.weights[static_cast<std::size_t>(id)];
    if (options_.stop.stop_requested()) core::fail(ErrorCode::cancelled, "cancelled while loading '{}'", w.name);
    rows_.resize(static_cast<std::size_t>(count) * row_bytes);
    const Result<void> done = reader_.read_rows(id, first, count, rows_);
    if (!done) throw Exception(done.error());
  }
  void upload(std::uint64_t offset, const void* from, std::uint64_t bytes) {
    const std::lock_guard<std::mutex> turn(engine_.turn);
    // From memory that is not pinned: it may be used again when the call returns.
    check(cudaMemcpyAsync(arena_.data() + offset, from, bytes, cudaMemcpyHostToDevice, engine_.stream()),
          "copying weights");
  }

  void copy(backend::WeightId id, std::uint64_t offset, std::uint64_t row_bytes) {
    const backend::Weight& w = graph_.weights[static_cast<std::size_t>(id)];
    const std::int64_t rows = w.rows * w.experts;
    const auto step = static_cast<std::int64_t>(std::max<std::uint64_t>(1, piece / row_bytes));
    for (std::int64_t r = 0; r < rows; r += step) {
      const std::int64_t n = std::min(step, rows - r);
      read(id, r, n, row_bytes);
      upload(offset + static_cast<std::uint64_t>(r) * row_bytes, rows_.data(), rows_.size());
    }
  }

  void repack(backend::WeightId id, const PlacedWeight& placed) {
    const backend::Weight& w = graph_.weights[static_cast<std::size_t>(id)];
    const FragmentLayout layout = fragment_layout(w.type, w.rows, w.columns);
    const auto group_rows = static_cast<std::int64_t>(std::max<std::uint64_t>(1, piece / (64 * placed.row_bytes)) * 64);
    for (std::int64_t expert = 0; expert < w.experts; ++expert) {
      const std::uint64_t offset = placed.offset + static_cast<std::uint64_t>(expert * layout.bytes);
      for (std::int64_t r = 0; r < w.rows; r += group_rows) {
        const std::int64_t n = std::min(group_rows, w.rows - r);
        read(id, expert * w.rows + r, n, placed.row_bytes);
        groups_.assign(static_cast<std::size_t>((n + 63) / 64 * layout.group_bytes), std::byte{0});
        repack_rows(layout, rows_, n, groups_);
        upload(offset + static_cast<std::uint64_t>(r / 64 * layout.group_bytes), groups_.data(), groups_.size());
      }
    }
  }

  const backend::Graph& graph_;
  const backend::WeightReader& reader_;
  const backend::CompileOptions& options_;
  const Memory& arena_;
  Engine& engine_;
  std::vector<std::byte> rows_, groups_;
};

}  // namespace

WeightPlan plan_weights(const backend::Graph& graph) {
  const std::vector<Uses> uses = uses_of(graph);
  WeightPlan plan;
  const auto place = [&](std::uint64_t bytes) {
    const std::uint64_t offset = plan.bytes;
    plan.bytes = core::add_or_fail(plan.bytes, align(bytes), "bytes of weights", ErrorCode::out_of_memory);
    return offset;
  };
  for (std::size_t id = 0; id < graph.weights.size(); ++id) {
    const backend::Weight& w = graph.weights[id];
    PlacedWeight p;
    p.row_bytes = quant::row_bytes(w.type, static_cast<std::uint64_t>(w.columns));
    const auto rows = core::mul_or_fail(static_cast<std::uint64_t>(w.rows), static_cast<std::uint64_t>(w.experts),
                                        "rows of a weight", ErrorCode::out_of_memory);
    const std::uint64_t file_bytes =
        core::mul_or_fail(rows, p.row_bytes, "bytes of a weight", ErrorCode::out_of_memory);
    p.bytes = file_bytes;
    const bool few = w.experts <= most_experts_sorted;
    if (uses[id].matmul && few && has_fragments(w.type) && w.columns % 32 == 0) {
      p.form = WeightForm::fragments;
      p.bytes = core::mul_or_fail(static_cast<std::uint64_t>(fragment_layout(w.type, w.rows, w.columns).bytes),
                                  static_cast<std::uint64_t>(w.experts), "bytes of a weight", ErrorCode::out_of_memory);
    }
    p.offset = place(p.bytes);
    if (p.form == WeightForm::fragments && uses[id].other) p.copy = place(file_bytes);
    plan.weights.push_back(p);
  }
  return plan;
}

Memory load_weights(const backend::Graph& graph, const WeightPlan& plan, const backend::WeightReader& reader,
                    const backend::CompileOptions& options, const std::shared_ptr<Engine>& engine) {
  Memory arena(engine, Memory::Kind::device, plan.bytes);
  Loader loader(graph, reader, options, arena, *engine);
  for (std::size_t id = 0; id < plan.weights.size(); ++id) {
    loader.load(static_cast<backend::WeightId>(id), plan.weights[id]);
    if (options.progress) options.progress(static_cast<double>(id + 1) / static_cast<double>(plan.weights.size()));
  }
  const std::lock_guard<std::mutex> turn(engine->turn);
  check(cudaStreamSynchronize(engine->stream()), "copying weights");
  return arena;
}

}  // namespace llminfer::cuda
