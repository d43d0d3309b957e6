// Steps of a small decoder on the CUDA device.
#pragma once

#include "runtime/device.h"
#include "steps_decoder.h"
#include "support.h"

namespace ptxsim::tests {

/// Asks for every op's time, so that launches are made one by one.
struct Watch final : backend::ProfileSink {
  void on_span(const backend::OpSpan& span) noexcept override {
    in_order = in_order && span.first_op == ops;
    ops += span.op_count;
  }
  int ops = 0;
  bool in_order = true;
};

/// A workspace and a cache, with sequences that grow.
class Run {
 public:
  /// `pages_each`: of 16 tokens, for each sequence. There are others too, and as many in all as no multiple of 7.
  explicit Run(const backend::Program& program, std::int32_t width = 128, std::int32_t pages_each = 2)
      : program_(program),
        width_(width),
        pages_each_(pages_each),
        pages_(sequences * pages_each + 5),
        space_(program.workspace().value()),
        kv_(program.make_kv({KvType::f16, KvType::f16}, std::vector<std::int32_t>{pages_}).value()) {}

  /// `count` tokens for each of the first `n` sequences; every last token comes out.
  std::vector<float> step(std::int32_t n, std::int32_t count, backend::ProfileSink* profile,
                          backend::OutputKind kind = backend::OutputKind::logits) {
    std::vector<Token> tokens;
    std::vector<std::int32_t> positions, outputs, page_numbers;
    std::vector<backend::SequenceRange> ranges;
    std::vector<backend::PageTable> tables;
    for (std::int32_t s = 0; s < sequences; ++s) {
      for (std::int32_t p = 0; p < pages_each_; ++p) page_numbers.push_back((s * pages_each_ + p) * 7 % pages_);
    }
    for (std::int32_t s = 0; s < n; ++s) {
      std::int32_t& length = length_[static_cast<std::size_t>(s)];
      ranges.push_back({s * count, count, length, 0});
      for (std::int32_t i = 0; i < count; ++i) {
        tokens.push_back((s * 31 + (length + i) * 7 + 3) % vocabulary);
        positions.push_back(length + i);
      }
      length += count;
      outputs.push_back(static_cast<std::int32_t>(tokens.size()) - 1);
      tables.push_back({page_numbers.data() + s * pages_each_, pages_each_});
    }
    if (not_first) outputs.erase(outputs.begin());
    const std::int32_t columns = kind == backend::OutputKind::hidden ? width_ : vocabulary;
    std::vector<float> out(outputs.size() * static_cast<std::size_t>(columns));
    std::vector<std::int32_t> ids(outputs.size() * k);
    std::vector<float> scores(ids.size()), sums(outputs.size());
    backend::StepOutputs to;
    to.kind = kind;
    to.values = out;
    to.ids = ids;
    to.scores = scores;
    to.log_sum_exp = sums;
    to.k = k;
    const backend::Status status =
        program_.run({tokens, positions, ranges, tables, outputs}, *kv_, *space_, to, stop_, profile);
    INFO((status.message != nullptr ? status.message : ""));
    CHECK(status.ok());
    return kind == backend::OutputKind::arg_max || kind == backend::OutputKind::top_k ? scores : out;
  }
  bool not_first = false;  ///< nothing comes out of the first sequence
  std::vector<std::byte> cache() const {
    std::vector<std::byte> all;
    std::vector<std::byte> page(kv_->page_bytes(0));
    for (std::int32_t p = 0; p < pages_; ++p) {
      CHECK(kv_->read_page(0, p, page).ok());
      all.insert(all.end(), page.begin(), page.end());
    }
    return all;
  }

 private:
  static constexpr std::int32_t k = 5;
  const backend::Program& program_;
  std::int32_t width_;  // of hidden rows
  std::int32_t pages_each_, pages_;
  std::unique_ptr<backend::Workspace> space_;
  std::unique_ptr<backend::KvStorage> kv_;
  backend::StopFlag stop_;
  std::array<std::int32_t, sequences> length_{};
};

inline void no_findings() {
  for (const Finding& f : simulated_device().findings) FAIL_CHECK(name_of(f.check) << " " << f.source << " " << f.text);
  simulated_device().findings.clear();
}

}  // namespace ptxsim::tests
