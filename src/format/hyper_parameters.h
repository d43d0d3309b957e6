// The numbers that define a model's graph, in neutral form and already bounded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace llminfer::format {

/// Which elements of a head RoPE rotates together.
enum class RopePairing : std::uint8_t {
  interleaved,  ///< (0,1), (2,3), ...: files of the llama architecture, whose q and k rows the converter permuted
  half          ///< (0, d/2), (1, d/2 + 1), ...: all others ("NeoX")
};

enum class RopeScaling : std::uint8_t {
  none,
  linear,   ///< positions divided by factor
  yarn,     ///< frequencies blended between the two by beta_fast and beta_slow
  longrope  ///< divisors from the tensors rope_factors_long and rope_factors_short
};          // llama3's scaling is the tensor rope_freqs, whatever is said here

struct RopeParameters {
  RopePairing pairing = RopePairing::half;
  int dimension_count = 0;                 ///< elements of a head that are rotated, even; at most key_length
  std::optional<int> dimension_count_swa;  ///< in layers with a window
  float freq_base = 10000.0F;
  std::optional<float> freq_base_swa;  ///< in layers with a window
  RopeScaling scaling = RopeScaling::none;
  float factor = 1.0F;                   ///< of linear and yarn, > 0
  int original_context_length = 0;       ///< before the scaling; the model's context length when the file has none
  std::optional<float> attn_factor;      ///< multiplies cos and sin (longrope), or scales yarn's own factor
  std::optional<float> yarn_ext_factor;  ///< 1 when absent and scaling is yarn
  std::optional<float> yarn_attn_factor, yarn_beta_fast, yarn_beta_slow, yarn_log_multiplier;
};

enum class ExpertGating : std::uint8_t { softmax = 1, sigmoid = 2, softmax_of_chosen = 3 };

struct ExpertParameters {
  int count = 0;                           ///< 0: no mixture of experts
  int used = 0;                            ///< experts a token is sent to, 1 .. count
  std::optional<int> feed_forward_length;  ///< width of one expert
  std::optional<int> shared_count;         ///< experts that every token uses
  std::optional<int> shared_feed_forward_length;
  std::optional<int> leading_dense_blocks;  ///< layers at the start without experts
  std::optional<float> weights_scale;
  std::optional<bool> weights_norm;
  std::optional<ExpertGating> gating;
};

/// Every value is finite, within sane bounds and consistent with the others. Optional: the file does not say;
/// an architecture chooses its default, or asks by ModelFile::need. Layer indices are 0 .. block_count - 1.
struct HyperParameters {
  std::string architecture;
  std::string name;        ///< may be empty
  int vocab_size = 0;      ///< from the key, else the vocabulary's size, else 0
  int context_length = 0;  ///< tokens the model was trained for
  int embedding_length = 0;
  int block_count = 0;
  std::vector<int> head_counts, head_counts_kv, feed_forward_lengths;  ///< one a layer; feed-forward 0 when not given
  int head_count(int layer) const { return head_counts[static_cast<std::size_t>(layer)]; }
  int head_count_kv(int layer) const { return head_counts_kv[static_cast<std::size_t>(layer)]; }
  int feed_forward_length(int layer) const { return feed_forward_lengths[static_cast<std::size_t>(layer)]; }

  int key_length = 0, value_length = 0;  ///< elements of one head; embedding_length / heads when the file has none
  std::optional<int> key_length_swa, value_length_swa;
  std::optional<float> rms_eps, norm_eps;  ///< > 0
  RopeParameters rope;

  std::optional<int> sliding_window;         ///< tokens that a windowed layer sees, itself included; absent or > 0
  std::optional<int> sliding_window_period;  ///< of n layers the last is full, the others windowed; 0: all windowed
  std::vector<bool> sliding_window_layers;   ///< empty, or one a layer: true is windowed
  /// Whether this layer has the window: as the file says, else by the architecture's own period. No window: false.
  bool windowed(int layer, int default_period) const;

  std::optional<float> attention_scale;                          ///< factor of q . k; 1/sqrt(key_length) when absent
  std::optional<float> attn_logit_softcap, final_logit_softcap;  ///< absent or > 0
  std::optional<float> logit_scale, embedding_scale, residual_scale;
  ExpertParameters experts;
};

}  // namespace llminfer::format
