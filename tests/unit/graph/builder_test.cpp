#include "catch.h"
#include "graph/check.h"
#include "graph/op_io.h"
#include "llminfer/error.hpp"
#include "tiny_graph.h"

using namespace llminfer;
using llminfer::tests::matrix_weight;
using llminfer::tests::tiny_graph;

namespace {

/// The message of the error that check() reports, empty when it accepts.
std::string complaint(const backend::Graph& graph) {
  try {
    graph::check(graph);
  } catch (const Exception& e) {
    CHECK(e.error().code == ErrorCode::corrupt);
    return e.error().message;
  }
  return "";
}

template <class T>
T& first_op(backend::Graph& graph) {
  for (backend::Op& op : graph.ops) {
    if (T* found = std::get_if<T>(&op)) return *found;
  }
  throw std::logic_error("no such op");
}

}  // namespace

TEST_CASE("a decoder graph passes the check and groups cover it") {
  const backend::Graph graph = tiny_graph();
  CHECK(complaint(graph).empty());
  CHECK(graph.groups.size() == 6);
  CHECK(graph.states.size() == 1);
  CHECK(graph.states[0].layers == 1);
  CHECK(graph.rope_tables.size() == 1);
  CHECK(std::string(graph::name_of(graph.ops[0])) == "embed");
}

TEST_CASE("layers of equal shape share a state group") {
  graph::GraphBuilder b;
  CHECK(b.state(0, 2, 16, 16).layer == 0);
  CHECK(b.state(0, 2, 16, 16).layer == 1);
  const backend::StateSlot windowed = b.state(64, 2, 16, 16);
  CHECK(windowed.group == 1);
  CHECK(windowed.layer == 0);
  CHECK(b.state(0, 2, 16, 8).group == 2);
}

TEST_CASE("every broken graph is refused with the op and the value at fault") {
  backend::Graph graph = tiny_graph();
  SECTION("value read before written") {
    first_op<backend::RmsNorm>(graph).in = 9;
    CHECK_THAT(complaint(graph), Catch::Contains("rms_norm") && Catch::Contains("value 9"));
  }
  SECTION("value written twice") {
    first_op<backend::MatMul>(graph).out = 0;
    CHECK_THAT(complaint(graph), Catch::Contains("second time"));
  }
  SECTION("weight of another shape") {
    graph.weights[2].rows = 63;
    CHECK_THAT(complaint(graph), Catch::Contains("'q'") && Catch::Contains("63"));
  }
  SECTION("weight id outside") {
    first_op<backend::MatMul>(graph).weight = 99;
    CHECK_THAT(complaint(graph), Catch::Contains("99"));
  }
  SECTION("rows that are not whole blocks") {
    graph.weights[2].columns = 65;
    CHECK_THAT(complaint(graph), Catch::Contains("whole blocks"));
  }
  SECTION("norm weight that is not float") {
    graph.weights[1].type = WeightType::f16;
    CHECK_THAT(complaint(graph), Catch::Contains("attn_norm"));
  }
  SECTION("heads that do not divide") {
    first_op<backend::PagedAttention>(graph).heads = 3;
    CHECK_THAT(complaint(graph), Catch::Contains("3 heads"));
  }
  SECTION("state slot outside") {
    first_op<backend::KvWrite>(graph).slot.layer = 1;
    CHECK_THAT(complaint(graph), Catch::Contains("layer 1"));
  }
  SECTION("rope table outside") {
    first_op<backend::Rope>(graph).table = 1;
    CHECK_THAT(complaint(graph), Catch::Contains("table 1"));
  }
  SECTION("rope wider than the head") {
    graph.rope_tables[0].inverse_frequency.push_back(1.0F);
    CHECK_THAT(complaint(graph), Catch::Contains("9 pairs"));
  }
  SECTION("groups with a hole") {
    ++graph.groups[1].first;
    CHECK_THAT(complaint(graph), Catch::Contains("group"));
  }
  SECTION("logits nobody writes") {
    graph.values.push_back({backend::Rows::outputs, 100});
    graph.logits = static_cast<backend::ValueId>(graph.values.size() - 1);
    CHECK_THAT(complaint(graph), Catch::Contains("logits"));
  }
  SECTION("eps of zero") {
    first_op<backend::RmsNorm>(graph).eps = 0;
    CHECK_THAT(complaint(graph), Catch::Contains("eps"));
  }
}
