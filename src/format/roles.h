// What a tensor is for, independent of the names a file format gives it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace llminfer::format {

/// The use of a tensor. Those from attn_norm on belong to a layer. A bias has the role of its weight, with bias = true.
enum class Role : std::uint8_t {
  unknown,  ///< a name this library does not know
  token_embd,
  output,
  output_norm,
  rope_freqs,          ///< llama3's frequency divisors, [rope dimensions / 2]
  rope_factors_long,   ///< LongRoPE, as above
  rope_factors_short,  ///< LongRoPE, as above
  attn_norm,
  attn_q,
  attn_k,
  attn_v,
  attn_qkv,  ///< fused: rows of q, then k, then v
  attn_output,
  attn_q_norm,
  attn_k_norm,
  attn_sinks,      ///< [heads]
  post_attn_norm,  ///< applied to attention's output; gpt-oss files use it for the norm before the feed-forward part
  ffn_norm,
  ffn_gate,
  ffn_up,  ///< phi3: gate rows, then up rows
  ffn_down,
  post_ffn_norm,
  ffn_gate_inp,   ///< router, [embedding, experts]
  ffn_gate_exps,  ///< [embedding, expert feed-forward, experts]
  ffn_up_exps,
  ffn_down_exps,
  ffn_gate_up_exps,    ///< fused: gate rows, then up rows
  ffn_gate_inp_shexp,  ///< gate of the shared expert, [embedding]
  ffn_gate_shexp,
  ffn_up_shexp,
  ffn_down_shexp,
  ffn_exp_probs,  ///< bias added to the router's scores for selection only (bias = true)
};

/// A role with the layer it belongs to (-1: none).
struct RoleName {
  Role role = Role::unknown;
  int layer = -1;
  bool bias = false;
};

/// Takes a GGUF tensor name apart; Role::unknown when the name is none of those above.
RoleName parse_tensor_name(std::string_view name) noexcept;

/// The GGUF tensor name of a role: "blk.3.attn_q.weight". For messages.
std::string tensor_name(Role role, int layer, bool bias);

}  // namespace llminfer::format
