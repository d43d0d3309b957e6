#include "format/roles.h"

#include <fmt/format.h>

namespace llminfer::format {
namespace {

struct Entry {
  Role role;
  std::string_view base;  // the name without "blk.<n>." and ".weight"
  bool layer;             // whether it belongs to a layer
};

constexpr Entry entries[] = {
    {Role::token_embd, "token_embd", false},
    {Role::output, "output", false},
    {Role::output_norm, "output_norm", false},
    {Role::rope_freqs, "rope_freqs", false},
    {Role::rope_factors_long, "rope_factors_long", false},
    {Role::rope_factors_short, "rope_factors_short", false},
    {Role::attn_norm, "attn_norm", true},
    {Role::attn_q, "attn_q", true},
    {Role::attn_k, "attn_k", true},
    {Role::attn_v, "attn_v", true},
    {Role::attn_qkv, "attn_qkv", true},
    {Role::attn_output, "attn_output", true},
    {Role::attn_q_norm, "attn_q_norm", true},
    {Role::attn_k_norm, "attn_k_norm", true},
    {Role::attn_sinks, "attn_sinks", true},
    {Role::post_attn_norm, "post_attention_norm", true},
    {Role::ffn_norm, "ffn_norm", true},
    {Role::ffn_gate, "ffn_gate", true},
    {Role::ffn_up, "ffn_up", true},
    {Role::ffn_down, "ffn_down", true},
    {Role::post_ffn_norm, "post_ffw_norm", true},
    {Role::ffn_gate_inp, "ffn_gate_inp", true},
    {Role::ffn_gate_exps, "ffn_gate_exps", true},
    {Role::ffn_up_exps, "ffn_up_exps", true},
    {Role::ffn_down_exps, "ffn_down_exps", true},
    {Role::ffn_gate_up_exps, "ffn_gate_up_exps", true},
    {Role::ffn_gate_inp_shexp, "ffn_gate_inp_shexp", true},
    {Role::ffn_gate_shexp, "ffn_gate_shexp", true},
    {Role::ffn_up_shexp, "ffn_up_shexp", true},
    {Role::ffn_down_shexp, "ffn_down_shexp", true},
    {Role::ffn_exp_probs, "exp_probs_b", true},
};

bool take_suffix(std::string_view& name, std::string_view suffix) {
  if (name.size() < suffix.size() || name.substr(name.size() - suffix.size()) != suffix) return false;
  name.remove_suffix(suffix.size());
  return true;
}

// "blk.17.": the number without sign or leading zeros, so that one layer has one spelling. -1: no such prefix.
int take_layer(std::string_view& name) {
  constexpr std::string_view prefix = "blk.";
  if (name.substr(0, prefix.size()) != prefix) return -1;
  std::size_t at = prefix.size();
  int layer = 0;
  while (at < name.size() && name[at] >= '0' && name[at] <= '9') {
    layer = layer * 10 + (name[at] - '0');
    if (layer > 999999) return -1;
    ++at;
  }
  const std::size_t digits = at - prefix.size();
  if (digits == 0 || (digits > 1 && name[prefix.size()] == '0')) return -1;
  if (at >= name.size() || name[at] != '.') return -1;
  name.remove_prefix(at + 1);
  return layer;
}

}  // namespace

RoleName parse_tensor_name(std::string_view name) noexcept {
  RoleName result;
  result.layer = take_layer(name);
  result.bias = take_suffix(name, ".bias");
  if (!result.bias && !take_suffix(name, ".weight")) return result;
  for (const Entry& entry : entries) {
    if (entry.base == name && entry.layer == (result.layer >= 0)) {
      result.role = entry.role;
      return result;
    }
  }
  return result;
}

std::string tensor_name(Role role, int layer, bool bias) {
  const char* const suffix = bias ? "bias" : "weight";
  for (const Entry& entry : entries) {
    if (entry.role != role || entry.layer != (layer >= 0)) continue;
    return layer >= 0 ? fmt::format("blk.{}.{}.{}", layer, entry.base, suffix)
                      : fmt::format("{}.{}", entry.base, suffix);
  }
  return fmt::format("tensor of role {} in layer {}", static_cast<int>(role), layer);
}

}  // namespace llminfer::format
