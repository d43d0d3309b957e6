#include "naive_backend.hpp"

#include <cstring>
#include <string>

#include "naive_program.hpp"

namespace naive {

using llminfer::Error;
using llminfer::ErrorCode;
using llminfer::KvType;
using llminfer::Result;
using llminfer::WeightType;

namespace {

bool unpack_float(WeightType type, const std::byte* in, float* out, std::size_t n) {
  if (type != WeightType::f32) return false;
  std::memcpy(out, in, n * sizeof(float));
  return true;
}

bool round_float(KvType type, const float* in, std::int32_t width, float* out) {
  if (type != KvType::f32) return false;
  std::memcpy(out, in, static_cast<std::size_t>(width) * sizeof(float));
  return true;
}

std::size_t count_of(const Weight& w) {
  return static_cast<std::size_t>(w.columns) * static_cast<std::size_t>(w.rows) * static_cast<std::size_t>(w.experts);
}

class NaiveBackend final : public Backend {
 public:
  explicit NaiveBackend(Formats formats) : formats_(formats) {}

  llminfer::DeviceInfo info() const override {
    llminfer::DeviceInfo info;
    info.kind = "naive";
    info.name = "plain loops";
    info.isa = "baseline";
    info.page_size = page_size;
    info.default_kv = KvType::f32;
    return info;
  }

  Result<MemoryNeeds> plan(const Graph& graph, const Limits& limits, KvFormat) const override {
    MemoryNeeds needs;
    for (const Weight& w : graph.weights) needs.weights += count_of(w) * sizeof(float);
    for (const Value& v : graph.values) {
      const std::int32_t rows = v.rows == Rows::tokens ? limits.tokens : limits.outputs;
      needs.workspace += static_cast<std::uint64_t>(v.width) * static_cast<std::uint64_t>(rows) * sizeof(double);
    }
    for (const StateGroup& g : graph.states) needs.page_bytes.push_back(page_floats(g) * sizeof(float));
    return needs;
  }

  Result<std::shared_ptr<const Program>> compile(std::shared_ptr<const Graph> graph, const WeightReader& reader,
                                                 const CompileOptions& options) const override {
    try {
      Weights weights;
      for (std::size_t id = 0; id < graph->weights.size(); ++id) {
        if (options.stop.stop_requested()) return Error{ErrorCode::cancelled, "cancelled", "naive compile"};
        Result<std::vector<float>> values = load(graph->weights[id], static_cast<WeightId>(id), reader);
        if (!values) return values.error();
        weights.values.push_back(std::move(*values));
        if (options.progress)
          options.progress(static_cast<double>(id + 1) / static_cast<double>(graph->weights.size()));
      }
      return std::shared_ptr<const Program>(
          std::make_shared<CompiledGraph>(std::move(graph), options.limits, std::move(weights), formats_));
    } catch (const std::bad_alloc&) {
      return Error{ErrorCode::out_of_memory, "weights", "naive compile"};
    }
  }

  /// This device does not count.
  std::uint64_t memory_used() const noexcept override { return 0; }

 private:
  Result<std::vector<float>> load(const Weight& w, WeightId id, const WeightReader& reader) const {
    const llminfer::WeightTypeInfo& info = llminfer::describe(w.type);
    const std::size_t columns = static_cast<std::size_t>(w.columns);
    const std::size_t bytes = columns / info.block_size * info.block_bytes;
    const std::int64_t rows = w.rows * w.experts;
    std::vector<std::byte> packed(bytes);
    std::vector<float> out(count_of(w));
    for (std::int64_t r = 0; r < rows; ++r) {
      const Result<void> read = reader.read_rows(id, r, 1, packed);
      if (!read) return read.error();
      if (!formats_.unpack(w.type, packed.data(), out.data() + static_cast<std::size_t>(r) * columns, columns)) {
        return Error{ErrorCode::unsupported_type, "weight '" + w.name + "' is " + std::string(info.name),
                     "naive compile"};
      }
    }
    return out;
  }

  Formats formats_;
};

}  // namespace

Formats float_only() { return {unpack_float, round_float}; }

std::shared_ptr<Backend> make_backend(Formats formats) { return std::make_shared<NaiveBackend>(formats); }

}  // namespace naive
