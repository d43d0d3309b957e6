// Steps of whole decoders with weights of floats, whose products in prompts are cuBLAS's: beside those of our kernel.
#include <algorithm>

#include "cublas/stand_in.h"
#include "steps_run.h"
#include "support/relative_difference.h"

namespace ptxsim::tests {
namespace {

constexpr double most_error = 1e-5;
/// Where activations become halves: small differences may round to other ones.
constexpr double most_error_of_halves = 1e-3;

Kind kind_of(WeightType type, bool experts = false) {
  Kind k;
  k.type = k.values = type;
  k.experts = experts;
  return k;
}

/// The best token of each row.
std::vector<std::ptrdiff_t> tokens_of(const std::vector<float>& logits) {
  std::vector<std::ptrdiff_t> best;
  for (auto row = logits.begin(); row != logits.end(); row += vocabulary) {
    best.push_back(std::max_element(row, row + vocabulary) - row);
  }
  return best;
}

/// A prompt of each sequence, tokens one by one, and more prompts behind them: logits of each step.
std::vector<std::vector<float>> text(const Device& d) {
  Run run(*d.program);
  std::vector<std::vector<float>> all;
  for (const auto& [n, count] : {std::pair{sequences, 4}, {sequences, 1}, {2, 1}, {2, 1}, {2, 9}, {3, 1}}) {
    all.push_back(run.step(n, count, nullptr));
  }
  return all;
}

void compare(const std::vector<std::vector<float>>& theirs, const std::vector<std::vector<float>>& ours,
             double limit = most_error) {
  REQUIRE(theirs.size() == ours.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    INFO("step " << i);
    CHECK(llminfer::test::relative_difference(theirs[i], ours[i]) < limit);
    CHECK(tokens_of(theirs[i]) == tokens_of(ours[i]));
  }
}

void all_well() {
  no_findings();
  SimulatedCublas& seen = simulated_cublas();
  for (const std::string& what : seen.complaints) FAIL_CHECK(what);
  CHECK(seen.in_default_workspace == 0);
  const int handles = seen.handles;
  seen = {};
  seen.handles = handles;
}

/// Of a step whose sequences have several tokens: those of a layer; in the last one those ahead of the rows that are
/// gathered, which are too few.
constexpr std::uint64_t in_layer = 7, in_last = 3, in_step = (layers - 1) * in_layer + in_last;

}  // namespace

TEST_CASE("steps of a decoder with floats take cuBLAS in prompts, and give the tokens of our kernel") {
  const Kind kind = kind_of(WeightType::f32);
  const Device with(kind, {stand_in_cublas()}), without(kind);
  const std::vector<std::vector<float>> theirs = text(with), ours = text(without);
  CHECK(simulated_cublas().products == 2 * in_step);
  CHECK(theirs.front() != ours.front());  // sums of another kind
  compare(theirs, ours);
  CHECK(text(with) == theirs);
  all_well();
}

TEST_CASE("the router of experts is cuBLAS's in prompts, and chooses as it does by our kernel") {
  const Kind kind = kind_of(WeightType::q8_0, true);
  const Device with(kind, {stand_in_cublas()}), without(kind);
  const std::vector<std::vector<float>> theirs = text(with);
  CHECK(simulated_cublas().products == 2 * (layers - 1));
  compare(theirs, text(without), most_error_of_halves);
  all_well();
}

TEST_CASE("steps of decoders with halves have their own kernels everywhere") {
  for (const WeightType type : {WeightType::f16, WeightType::bf16}) {
    const Device with(kind_of(type), {stand_in_cublas()}), without(kind_of(type));
    CHECK(text(with) == text(without));
    CHECK(with.backend->info().notes.empty());
  }
  CHECK(simulated_cublas().products == 0);
  CHECK(simulated_cublas().handles == 0);
  all_well();
}

TEST_CASE("a product that fails amid a step of a decoder leaves no trace in what comes out") {
  const Kind kind = kind_of(WeightType::f32);
  const std::vector<std::vector<float>> ours = text(Device(kind));
  // The first product of all; one amid a layer, the last of the step; the first of the second prompt.
  for (const std::uint64_t well : {std::uint64_t{0}, std::uint64_t{4}, in_step - 1, in_step}) {
    INFO("products that go well: " << well);
    const Device with(kind, {stand_in_cublas()});
    simulated_cublas().well = well;
    simulated_cublas().product_status = 14;
    const std::vector<std::vector<float>> theirs = text(with);
    CHECK(simulated_cublas().products == well);
    CHECK(with.backend->info().notes == "no cuBLAS: a product of cuBLAS 13.2.3 failed with status 14");
    if (well == 0) CHECK(theirs == ours);
    compare(theirs, ours);
    // It is not tried again.
    simulated_cublas().product_status = 0;
    CHECK(text(with) == ours);
    CHECK(simulated_cublas().products == well);
    all_well();
  }
}

}  // namespace ptxsim::tests
