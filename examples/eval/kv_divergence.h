// What each format of keys and values costs in accuracy.
#pragma once

#include <functional>
#include <llminfer/model.hpp>
#include <stop_token>
#include <string>
#include <vector>

namespace examples {

struct KvDivergence {
  llminfer::KvType k = llminfer::KvType::f32;
  llminfer::KvType v = llminfer::KvType::f32;
  std::size_t positions = 0;
  double mean = 0;          ///< of KL(f32 || this format) in nats
  double largest = 0;       ///< of one position
  double same_best = 0;     ///< share of positions with the same most probable token
  double nll_increase = 0;  ///< of the text's tokens, nats a token
};

struct KvDivergenceOptions {
  int tokens = 512;  ///< of the text, from its beginning
  int window = 512;  ///< tokens of a window, a BOS included; each starts from nothing
  bool progress = false;
};

/// Opens the model with given formats.
using OpenModel = std::function<llminfer::Model(llminfer::KvType k, llminfer::KvType v)>;

/// Distributions of the next token with K and V in each format, one side at a time and both, against f32 for both: at
/// every position of the text. All models are loaded at the same time.
std::vector<KvDivergence> kv_divergence(const OpenModel& open, const std::string& text, KvDivergenceOptions options,
                                        const std::stop_token& stop);

}  // namespace examples
