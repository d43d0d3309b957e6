// The kinds of output: logits, hidden state, arg-max, top-k, under token masks, with ties, NaN and no row at all.
#include <cmath>
#include <limits>

#include "case_builder.h"
#include "limits.h"

namespace llminfer::op_cases {
namespace {

constexpr std::int32_t rows = 24;

/// Logits that are copied input: the same bits on every device, with many ties.
ValueId copied_logits(CaseBuilder& b, std::int32_t vocabulary) {
  std::vector<float> values(static_cast<std::size_t>(rows * vocabulary));
  for (float& v : values) v = static_cast<float>(b.random().below(40)) / 4.0F;
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const auto row = [&](std::int32_t r) { return values.begin() + std::ptrdiff_t{r} * vocabulary; };
  std::fill(row(1), row(2), 0.0F);
  *row(2) = nan;
  *(row(3) - 1) = nan;
  std::fill(row(3), row(4), nan);
  return b.input(vocabulary, values);
}

/// Tokens are allowed with a chance of `share`; row 4 of the outputs allows none, row 5 one alone.
std::vector<std::uint32_t> mask(CaseBuilder& b, std::size_t outputs, std::int32_t vocabulary, double share) {
  const std::size_t words = (static_cast<std::size_t>(vocabulary) + 31) / 32;
  std::vector<std::uint32_t> out(outputs * words, 0);
  for (std::size_t r = 0; r < outputs; ++r) {
    for (std::int32_t t = 0; t < vocabulary; ++t) {
      const bool open = r == 5 ? t == vocabulary - 1 : r != 4 && b.random().uniform() < share;
      if (open) out[r * words + static_cast<std::size_t>(t) / 32] |= 1U << (t % 32);
    }
  }
  return out;
}

OpCase output(const std::string& name, backend::OutputKind kind, std::int32_t vocabulary, std::int32_t k, bool masked) {
  CaseBuilder b(name);
  const ValueId logits = copied_logits(b, vocabulary);
  const auto prepare = [&](CaseStep& step) {
    step.kind = kind;
    step.k = k;
    if (masked) step.allowed = mask(b, step.output_rows.size(), vocabulary, 0.3);
  };
  prepare(b.step(rows));
  CaseStep& some = b.step(5);
  some.output_rows = {1, 4};
  prepare(some);
  CaseStep& nothing = b.step(3);
  nothing.output_rows = {};
  prepare(nothing);
  return b.finish(logits, limits::scores);
}

/// A head of which some weights are NaN: so are the logits of their tokens, in the first and the last column and
/// within.
OpCase head_with_nan(const std::string& name, std::vector<std::int32_t> tokens, bool masked) {
  constexpr std::int32_t columns = 64, vocabulary = 1003;
  CaseBuilder b(name);
  const ValueId in = b.gather(b.input(columns, 40));
  b.group(backend::GroupKind::head, none);
  const ValueId norm = b.add(backend::RmsNorm{in, b.vector(columns, 1.0, 0.3), none, columns, 1e-5F}, in, columns);
  std::vector<float> weights(static_cast<std::size_t>(columns * vocabulary));
  for (float& w : weights) w = static_cast<float>(b.random().uniform()) - 0.5F;
  for (const std::int32_t token : tokens) {
    weights[static_cast<std::size_t>(token * columns + 5)] = std::numeric_limits<float>::quiet_NaN();
  }
  const WeightId weight = b.float_weight(columns, vocabulary, weights);
  const ValueId logits = b.add(backend::MatMul{norm, weight, none, none}, norm, vocabulary);
  for (const std::int32_t count : {1, 4, 9}) {
    CaseStep& step = b.step(count);
    step.kind = backend::OutputKind::arg_max;
    if (masked) step.allowed = mask(b, step.output_rows.size(), vocabulary, 0.3);
  }
  return b.finish(logits, limits::matmul(WeightType::f32));
}

OpCase hidden(const std::string& name) {
  CaseBuilder b(name);
  const ValueId in = b.gather(b.input(64, 40));
  b.group(backend::GroupKind::head, none);
  const ValueId norm = b.add(backend::RmsNorm{in, b.vector(64, 1.0, 0.3), none, 64, 1e-5F}, in, 64);
  const WeightId weight = b.weight(WeightType::f32, 64, 100, 1, 0.125);
  const ValueId logits = b.add(backend::MatMul{norm, weight, none, none}, norm, 100);
  b.graph().hidden = norm;
  b.step(7).kind = backend::OutputKind::hidden;
  b.step(7);
  CaseStep& some = b.step(33);
  some.kind = backend::OutputKind::hidden;
  some.output_rows = {0, 9, 32};
  CaseStep& nothing = b.step(3);
  nothing.kind = backend::OutputKind::hidden;
  nothing.output_rows = {};
  return b.finish(logits, limits::matmul(WeightType::f32));
}

}  // namespace

void add_output_cases(CaseList& list) {
  for (const std::int32_t vocabulary : {1, 31, 32, 100, 4099}) {
    for (const bool masked : {false, true}) {
      const std::string suffix = std::to_string(vocabulary) + (masked ? " masked" : "");
      list.push_back({"outputs/arg_max " + suffix, false, [=](const std::string& n) {
                        return output(n, backend::OutputKind::arg_max, vocabulary, 0, masked);
                      }});
      for (const std::int32_t k : {1, 8, 31, 64}) {
        if (k > vocabulary) continue;
        list.push_back({"outputs/top_k " + std::to_string(k) + " of " + suffix, false, [=](const std::string& n) {
                          return output(n, backend::OutputKind::top_k, vocabulary, k, masked);
                        }});
      }
    }
  }
  for (const bool masked : {false, true}) {
    for (const auto& tokens : std::vector<std::vector<std::int32_t>>{{0}, {1002}, {517}, {1001, 600, 3}}) {
      const std::string suffix = std::to_string(tokens.front()) + (masked ? " masked" : "");
      list.push_back({"outputs/arg_max of a head with NaN " + suffix, false,
                      [=](const std::string& n) { return head_with_nan(n, tokens, masked); }});
    }
  }
  list.push_back({"outputs/hidden", false, hidden});
}

}  // namespace llminfer::op_cases
