// The tiny models through the public API: tokens scored by a Session, whose pool serves windowed and full layers.
#include <llminfer/llminfer.hpp>

#include <algorithm>
#include <cmath>
#include <string>

#include "cases.h"
#include "catch.h"

using namespace llminfer;

namespace {

/// Worst difference between two rows; infinite where one is no number.
double difference(std::span<const float> ours, const std::vector<float>& expected) {
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double d = std::fabs(double{ours[i]} - expected[i]);
    worst = std::isnan(d) ? INFINITY : std::max(worst, d);
  }
  return worst;
}

/// Worst difference of a logit from the golden's, or -1 if rows are missing.
double worst_difference(Session& session, const test::Golden& golden) {
  double worst = 0;
  std::size_t next = 0;
  session
      .score(golden.tokens,
             [&](int position, std::span<const float> logits) {
               if (next == golden.rows.size() || golden.rows[next].position != position) return true;
               worst = std::max(worst, difference(logits, golden.rows[next++].logits));
               return true;
             })
      .value();
  return next == golden.rows.size() ? worst : -1;
}

}  // namespace

TEST_CASE("tiny models: a Session scores as llama.cpp does") {
  const Device device = Device::reference().value();
  for (const test::Case& c : test::cases) {
    const test::Golden golden = test::golden_of(c);
    LoadOptions options;
    options.devices = {device};
    options.context = c.context;
    options.max_step_tokens = 24;  // several steps, some windows shorter than a step and some not
    options.k = options.v = KvType::f32;
    const Model model = Model::open(ModelSource::file(test::path_of(std::string(c.model) + ".gguf")), options).value();
    Session session = Session::open(model).value();
    const double worst = worst_difference(session, golden);
    INFO(c.model << " at context " << c.context << ": worst difference of a logit " << worst);
    CHECK(worst >= 0);
    CHECK(worst <= c.tolerance);

    // Back into the first window and on again: the same logits.
    session.rewind(5).value();
    session.append(std::span(golden.tokens).subspan(5)).value();
    session.prefill().value();
    const std::span<const float> last = session.logits();
    const std::vector<float>& expected = golden.rows.back().logits;
    REQUIRE(last.size() == expected.size());
    CHECK(difference(last, expected) <= c.tolerance);
  }
}
