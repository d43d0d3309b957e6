// The graph that a device compiles: a flat list of ops over activations, weights and KV state. Versioned with
// backend.hpp, unstable until 1.0.
//
// One graph serves every batch of a model. A step works on n tokens from any mix of sequences; every activation is a
// row-major float matrix [rows x width] where rows is n (Rows::tokens) or the number of rows wanted out
// (Rows::outputs). Each value is written by exactly one op, which stands before all its readers (static single
// assignment).
#pragma once

#include <cstdint>
#include <memory_resource>
#include <string>
#include <variant>
#include <vector>

#include <llminfer/weight_type.hpp>

namespace llminfer {
inline namespace v0 {
namespace backend {

using ValueId = std::int32_t;   ///< index into Graph::values
using WeightId = std::int32_t;  ///< index into Graph::weights
constexpr std::int32_t none = -1;

enum class Rows : std::uint8_t { tokens, outputs };

/// One activation. A route value (see MoeRoute) has `used` pairs per row: width = 2 * used floats,
/// first the expert ids (exact small integers), then their weights.
struct Value {
  Rows rows = Rows::tokens;
  std::int32_t width = 0;
};

/// How a weight may be divided among devices (tensor parallelism); a device that holds the whole ignores it.
enum class Cut : std::uint8_t { none, rows, columns, heads, experts };

/// One weight: `experts` matrices of `rows` x `columns`, a row contiguous (columns are the reduction dimension of a
/// matmul). Vectors have rows = 1.
struct Weight {
  std::string name{};  ///< the file's name, for messages
  WeightType type = WeightType::f32;
  std::int64_t columns = 0;
  std::int64_t rows = 1;
  std::int64_t experts = 1;
  Cut cut = Cut::none;
};

enum class StateKind : std::uint8_t { paged, windowed };

/// Layers whose cached rows have one shape and one lifetime; a sequence has one page table per group.
/// A page holds page_size tokens of all `layers` of the group.
struct StateGroup {
  StateKind kind = StateKind::paged;
  std::int32_t window = 0;  ///< tokens a query can see, itself included; 0 = all. Windowed groups free pages behind it
  std::int32_t layers = 0;
  std::int32_t heads = 0;    ///< KV heads
  std::int32_t k_width = 0;  ///< values of one head's key
  std::int32_t v_width = 0;  ///< values of one head's value; may be 0
};

/// Where a layer's keys and values live: layer `layer` (0 ..) of state group `group`.
struct StateSlot {
  std::int32_t group = 0;
  std::int32_t layer = 0;
};

/// Angles of rotary position embedding: pair i of a head turns by position * inverse_frequency[i]. Every scaling rule
/// (linear, YaRN, llama3, LongRoPE) is already in the numbers. Cosine and sine are multiplied by `magnitude`.
struct RopeTable {
  std::vector<float> inverse_frequency{};
  float magnitude = 1.0F;
};

enum class RopePairing : std::uint8_t {
  interleaved,  ///< pair i is (x[2i], x[2i+1])
  half,         ///< pair i is (x[i], x[i + count]); count = number of pairs
};

// ---- ops. `in`, `out`: values; `weight`, `bias`: weights (none = absent). Shapes in brackets.

/// out[t] = weight[token t] * scale.  weight [vocabulary x width]
struct Embed {
  WeightId weight = none;
  ValueId out = none;
  float scale = 1.0F;
};

/// Per group of `group` values: out = in / sqrt(mean(in^2) + eps) * weight.  weight [group], f32. group = width
/// normalises the row, group = head width each head (QK norm).
struct RmsNorm {
  ValueId in = none;
  WeightId weight = none;
  ValueId out = none;
  std::int32_t group = 0;
  float eps = 1e-5F;
};

/// out = (in - mean) / sqrt(variance + eps) * weight + bias.  weight, bias [width], f32; bias may be absent
struct LayerNorm {
  ValueId in = none;
  WeightId weight = none;
  WeightId bias = none;
  ValueId out = none;
  float eps = 1e-5F;
};

/// out[r][j] = sum_k in[r][k] * weight[j][k] + bias[j].  weight [out width x in width], bias [out width] f32
struct MatMul {
  ValueId in = none;
  WeightId weight = none;
  WeightId bias = none;
  ValueId out = none;
};

/// Rotates the first 2 * pairs values of each of `heads` heads of `head_width` values; the rest is copied.
struct Rope {
  ValueId in = none;
  ValueId out = none;
  std::int32_t table = 0;  ///< index into Graph::rope_tables
  std::int32_t heads = 0;
  std::int32_t head_width = 0;
  RopePairing pairing = RopePairing::half;
};

/// Stores k [heads * k_width] and v [heads * v_width] of each token at its position's place.
struct KvWrite {
  ValueId k = none;
  ValueId v = none;  ///< none where v_width is 0
  StateSlot slot{};
};

enum class AttentionMode : std::uint8_t { causal, full };

/// Softmax attention of each query over the cached keys of its own sequence, its own position included (the slot's
/// KvWrite comes before). score = scale * q.k, then cap * tanh(score / cap) if cap > 0; with sinks, exp(sink[h]) joins
/// the denominator. A query at position p sees positions (p - window, p] (window of the slot's group; 0: all up to p).
/// q [heads * k_width], out [heads * v_width]; query head h reads KV head h / (heads / group.heads).
struct PagedAttention {
  ValueId q = none;
  ValueId out = none;
  StateSlot slot{};
  std::int32_t heads = 0;
  float scale = 1.0F;
  float cap = 0.0F;
  WeightId sinks = none;  ///< [heads], f32
  AttentionMode mode = AttentionMode::causal;
};

enum class Activation : std::uint8_t {
  silu,         ///< g * sigmoid(g) * u
  gelu_tanh,    ///< 0.5 g (1 + tanh(sqrt(2/pi) (g + 0.044715 g^3))) * u
  swiglu_clip,  ///< gpt-oss: g' = min(g, limit), u' = clamp(u, -limit, limit): g' sigmoid(alpha g') (u' + 1)
};

/// out = act(gate) * up
struct GatedActivation {
  ValueId gate = none;
  ValueId up = none;
  ValueId out = none;
  Activation kind = Activation::silu;
  float alpha = 1.702F;  ///< swiglu_clip only
  float limit = 7.0F;    ///< swiglu_clip only
};

struct Add {
  ValueId a = none;
  ValueId b = none;
  ValueId out = none;
};

struct Scale {
  ValueId in = none;
  ValueId out = none;
  float factor = 1.0F;
};

/// out = cap * tanh(in / cap)
struct Softcap {
  ValueId in = none;
  ValueId out = none;
  float cap = 1.0F;
};

/// Columns [offset, offset + out width) of in: takes fused projections apart.
struct Slice {
  ValueId in = none;
  ValueId out = none;
  std::int32_t offset = 0;
};

/// Rows wanted out: in Rows::tokens, out Rows::outputs.
struct GatherRows {
  ValueId in = none;
  ValueId out = none;
};

enum class Gating : std::uint8_t {
  softmax,           ///< softmax over all experts, then the best `used`
  sigmoid,           ///< sigmoid of each, then the best `used`
  softmax_selected,  ///< the best `used` logits, then softmax over those
};

/// Chooses experts for each row: ties go to the lower id, ids stand in falling order of score. out: a route value.
/// With `selection_bias` [experts] f32 the choice is by score + bias, the weights by score alone. `normalize` divides
/// the weights by their sum; then they are multiplied by `scale`.
struct MoeRoute {
  ValueId in = none;  ///< router logits [experts]
  ValueId out = none;
  WeightId selection_bias = none;
  std::int32_t experts = 0;
  std::int32_t used = 0;
  Gating gating = Gating::softmax;
  bool normalize = false;
  float scale = 1.0F;
};

/// For each row and each of its chosen experts e_s: out[s] = weight[e_s] in[s] + bias[e_s]. in is [k] (the same for
/// every chosen expert) or [used * k]; out [used * n].  weight [experts][n x k], bias f32 [experts rows x n columns]
struct MoeMatMul {
  ValueId in = none;
  ValueId route = none;
  WeightId weight = none;
  WeightId bias = none;
  ValueId out = none;
  std::int32_t used = 0;
};

/// out = sum over chosen experts of route weight * in[s].  in [used * n], out [n]
struct MoeCombine {
  ValueId in = none;
  ValueId route = none;
  ValueId out = none;
  std::int32_t used = 0;
};

using Op = std::variant<Embed, RmsNorm, LayerNorm, MatMul, Rope, KvWrite, PagedAttention, GatedActivation, Add, Scale,
                        Softcap, Slice, GatherRows, MoeRoute, MoeMatMul, MoeCombine>;

/// What a run of ops is for. A device may run a group fused or op by op.
enum class GroupKind : std::uint8_t { embed, qkv, attention, attention_out, ffn, head };

struct OpGroup {
  GroupKind kind = GroupKind::embed;
  std::int32_t layer = none;  ///< decoder layer, none outside the layers
  std::int32_t first = 0;     ///< ops [first, first + count)
  std::int32_t count = 0;
};

/// Groups cover all ops, in order, without overlap. The lists take their memory from the resource that the graph was
/// made with, which must outlive it; a copy takes its own from the default resource.
struct Graph {
  Graph() = default;
  explicit Graph(std::pmr::memory_resource* memory)
      : values(memory), weights(memory), ops(memory), groups(memory), states(memory), rope_tables(memory) {}

  std::pmr::vector<Value> values{};
  std::pmr::vector<Weight> weights{};
  std::pmr::vector<Op> ops{};
  std::pmr::vector<OpGroup> groups{};
  std::pmr::vector<StateGroup> states{};
  std::pmr::vector<RopeTable> rope_tables{};
  ValueId logits = none;  ///< Rows::outputs, width = vocabulary; an op case of the tests may have another width
  ValueId hidden = none;  ///< Rows::outputs, the head's input; may be none
  std::int32_t vocabulary = 0;
  std::int32_t context = 0;  ///< positions 0 .. context - 1 may occur
};

}  // namespace backend
}  // namespace v0
}  // namespace llminfer
