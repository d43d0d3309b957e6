// The frame that decoder-only transformers share: embed, layers of attention and feed-forward, norm, head. An
// architecture describes itself as a DecoderSpec (data); the one builder here turns it into a graph. Nothing asks for a
// model's name: what differs is a field.
#pragma once

#include <llminfer/backend/graph.hpp>
#include <vector>

#include "format/model_file.h"
#include "models/model_graph.h"

namespace llminfer::models {

/// Mixture of experts instead of one feed-forward network.
struct MoeSpec {
  int experts = 0;
  int used = 0;
  int width = 0;  ///< feed-forward width of one expert
  backend::Gating gating = backend::Gating::softmax;
  bool normalize = false;
  float scale = 1.0F;
};

struct LayerSpec {
  int heads = 0;
  int heads_kv = 0;
  int k_width = 0;
  int v_width = 0;
  int window = 0;  ///< tokens a query sees; 0: all
  int feed_forward = 0;
  bool moe = false;
  backend::RopeTable rope{};  ///< no frequencies: no rotation
};

/// Biases, fused q-k-v and gate-up projections and a separate output matrix are used when the file has them.
struct DecoderSpec {
  float embedding_scale = 1.0F;
  float eps = 1e-5F;
  backend::RopePairing pairing = backend::RopePairing::half;
  bool qk_norm = false;     ///< RMS norm of each head of q and k before RoPE
  bool post_norms = false;  ///< RMS norms on the outputs of attention and feed-forward, before the residual add
  format::Role ffn_norm = format::Role::ffn_norm;  ///< which tensor normalises the feed-forward input
  backend::Activation activation = backend::Activation::silu;
  bool sinks = false;            ///< a logit per head in the attention's denominator
  float attention_scale = 0.0F;  ///< 0: 1 / sqrt(k_width)
  float attention_cap = 0.0F;    ///< 0: none
  float residual_scale = 1.0F;   ///< of both branches before they are added
  float logit_scale = 1.0F;
  float logit_cap = 0.0F;  ///< 0: none
  MoeSpec moe{};
  std::vector<LayerSpec> layers{};
};

/// The spec as the hyper-parameters alone give it: shapes, RoPE with its scaling, windows where the file marks layers
/// (or every layer but each `window_period`-th, if > 0), caps and scales. An architecture then changes what is special.
DecoderSpec base_spec(const format::ModelFile& file, const format::HyperParameters& hyper, const BuildOptions& options,
                      int window_period = 0);

/// Builds and checks the graph. Throws not_found or corrupt naming the tensor that is missing or misshapen, and
/// unsupported_architecture naming a tensor that the spec leaves unused (running without it would give silent garbage).
ModelGraph build_decoder(const format::ModelFile& file, const format::HyperParameters& hyper, const DecoderSpec& spec,
                         const BuildOptions& options);

}  // namespace llminfer::models
