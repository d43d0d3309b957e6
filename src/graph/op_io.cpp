#include "graph/op_io.h"

namespace llminfer::graph {
namespace {

using namespace backend;  // op structs

struct Io {
  OpIo operator()(const Embed& o) const { return {{none, none, none}, o.out, {o.weight, none}}; }
  OpIo operator()(const RmsNorm& o) const { return {{o.in, none, none}, o.out, {o.weight, none}}; }
  OpIo operator()(const LayerNorm& o) const { return {{o.in, none, none}, o.out, {o.weight, o.bias}}; }
  OpIo operator()(const MatMul& o) const { return {{o.in, none, none}, o.out, {o.weight, o.bias}}; }
  OpIo operator()(const Rope& o) const { return {{o.in, none, none}, o.out, {none, none}}; }
  OpIo operator()(const KvWrite& o) const { return {{o.k, o.v, none}, none, {none, none}}; }
  OpIo operator()(const PagedAttention& o) const { return {{o.q, none, none}, o.out, {o.sinks, none}}; }
  OpIo operator()(const GatedActivation& o) const { return {{o.gate, o.up, none}, o.out, {none, none}}; }
  OpIo operator()(const Add& o) const { return {{o.a, o.b, none}, o.out, {none, none}}; }
  OpIo operator()(const Scale& o) const { return {{o.in, none, none}, o.out, {none, none}}; }
  OpIo operator()(const Softcap& o) const { return {{o.in, none, none}, o.out, {none, none}}; }
  OpIo operator()(const Slice& o) const { return {{o.in, none, none}, o.out, {none, none}}; }
  OpIo operator()(const GatherRows& o) const { return {{o.in, none, none}, o.out, {none, none}}; }
  OpIo operator()(const MoeRoute& o) const { return {{o.in, none, none}, o.out, {o.selection_bias, none}}; }
  OpIo operator()(const MoeMatMul& o) const { return {{o.in, o.route, none}, o.out, {o.weight, o.bias}}; }
  OpIo operator()(const MoeCombine& o) const { return {{o.in, o.route, none}, o.out, {none, none}}; }
};

struct Name {
  const char* operator()(const Embed&) const { return "embed"; }
  const char* operator()(const RmsNorm&) const { return "rms_norm"; }
  const char* operator()(const LayerNorm&) const { return "layer_norm"; }
  const char* operator()(const MatMul&) const { return "matmul"; }
  const char* operator()(const Rope&) const { return "rope"; }
  const char* operator()(const KvWrite&) const { return "kv_write"; }
  const char* operator()(const PagedAttention&) const { return "paged_attention"; }
  const char* operator()(const GatedActivation&) const { return "gated_activation"; }
  const char* operator()(const Add&) const { return "add"; }
  const char* operator()(const Scale&) const { return "scale"; }
  const char* operator()(const Softcap&) const { return "softcap"; }
  const char* operator()(const Slice&) const { return "slice"; }
  const char* operator()(const GatherRows&) const { return "gather_rows"; }
  const char* operator()(const MoeRoute&) const { return "moe_route"; }
  const char* operator()(const MoeMatMul&) const { return "moe_matmul"; }
  const char* operator()(const MoeCombine&) const { return "moe_combine"; }
};

}  // namespace

OpIo io_of(const Op& op) noexcept { return std::visit(Io{}, op); }

const char* name_of(const Op& op) noexcept { return std::visit(Name{}, op); }

const char* name_of(GroupKind kind) noexcept {
  static constexpr std::array<const char*, 6> names = {"embed", "qkv", "attention", "attention_out", "ffn", "head"};
  const auto index = static_cast<std::size_t>(kind);
  return index < names.size() ? names[index] : "unknown";
}

}  // namespace llminfer::graph
