// What the sampling tests share: logits that both sides of the goldens compute, and a small chain to drive.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/sampling/chain.h"

namespace sampling_test {

using namespace llminfer;
using namespace llminfer::runtime;

/// Multiples of 2^-20 within -8 .. 8: exact in float, the same in make_goldens.py.
inline std::vector<float> logits_row(std::uint32_t row, int size = 97) {
  std::vector<float> x;
  for (int i = 0; i < size; ++i) {
    const auto word = philox4x32_10({static_cast<std::uint32_t>(i), row, 0, 7}, {1, 2})[0];
    x.push_back(static_cast<float>(word >> 8) * 0x1p-20f - 8.0f);
  }
  return x;
}

/// Token texts: given ones, else a letter by id.
class Letters final : public TokenBytes {
 public:
  Letters() = default;
  explicit Letters(std::map<Token, std::string> special) : special_(std::move(special)) {}
  std::string_view bytes(Token token) const noexcept override {
    if (const auto it = special_.find(token); it != special_.end()) return it->second;
    return std::string_view("abcdefghijklmnopqrstuvwxyz").substr(static_cast<std::size_t>(token) % 26, 1);
  }

 private:
  std::map<Token, std::string> special_;
};

inline SamplerChain::Setup setup_for(int vocabulary, const TokenBytes* bytes = nullptr) {
  SamplerChain::Setup setup;
  setup.vocabulary = vocabulary;
  setup.context = 4096;
  setup.bytes = bytes;
  return setup;
}

/// One draw from fresh options; the status must be ok.
inline Draw draw_once(const SamplingOptions& options, const std::vector<float>& logits,
                      const std::vector<Token>& history = {}) {
  SamplerWorkspace workspace(static_cast<int>(logits.size()));
  SamplerChain chain(options, setup_for(static_cast<int>(logits.size())));
  Draw draw;
  if (chain.sample(workspace, logits, history, draw) != SampleStatus::ok) draw.token = -1;
  draw.top = {};
  return draw;
}

}  // namespace sampling_test
