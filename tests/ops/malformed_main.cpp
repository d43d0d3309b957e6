// Graphs with one thing wrong: compile and plan of every device must refuse them with a typed error.
#include <cstdio>
#include <limits>
#include <llminfer/error.hpp>

#include "device/cpu/cpu_backend.h"
#include "device/reference/reference_backend.h"

namespace {

using namespace llminfer;
using namespace llminfer::backend;

/// embed -> rms_norm -> rope -> kv_write, attention -> gather -> matmul, all 64 wide; then a route over its output.
Graph good_graph() {
  Graph g;
  g.vocabulary = 100;
  g.context = 64;
  g.weights = {{"embedding", WeightType::q8_0, 64, 100, 1, Cut::none},
               {"norm", WeightType::f32, 64, 1, 1, Cut::none},
               {"out", WeightType::q8_0, 64, 8, 1, Cut::none},
               {"experts", WeightType::q8_0, 64, 16, 8, Cut::none}};
  g.values = {{Rows::tokens, 64}, {Rows::tokens, 64}, {Rows::tokens, 64},  {Rows::tokens, 64}, {Rows::outputs, 64},
              {Rows::outputs, 8}, {Rows::outputs, 4}, {Rows::outputs, 32}, {Rows::outputs, 16}};
  g.states = {{StateKind::paged, 0, 1, 2, 32, 32}};
  g.rope_tables = {{{1.0F, 0.5F, 0.25F}, 1.0F}};
  PagedAttention attention;
  attention.q = 2;
  attention.out = 3;
  attention.heads = 2;
  MoeRoute route;
  route.in = 5;
  route.out = 6;
  route.experts = 8;
  route.used = 2;
  g.ops = {Embed{0, 0, 1.0F},
           RmsNorm{0, 1, 1, 64, 1e-5F},
           Rope{1, 2, 0, 2, 32, RopePairing::half},
           KvWrite{2, 1, {0, 0}},
           attention,
           GatherRows{3, 4},
           MatMul{4, 2, none, 5},
           route,
           MoeMatMul{4, 6, 3, none, 7, 2},
           MoeCombine{7, 6, 8, 2}};
  g.groups = {{GroupKind::ffn, 0, 0, 10}};
  g.logits = 8;
  return g;
}

template <class T>
T& op(Graph& g) {
  for (Op& o : g.ops) {
    if (T* found = std::get_if<T>(&o)) return *found;
  }
  std::terminate();
}

struct Fault {
  const char* name;
  void (*spoil)(Graph&);
};

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr std::int32_t huge = std::numeric_limits<std::int32_t>::max();

constexpr Fault faults[] = {
    {"value read before it is written", [](Graph& g) { op<RmsNorm>(g).in = 4; }},
    {"value id below none", [](Graph& g) { op<RmsNorm>(g).in = -2; }},
    {"value id outside", [](Graph& g) { op<GatherRows>(g).in = 9; }},
    {"output id outside", [](Graph& g) { op<MatMul>(g).out = huge; }},
    {"no output", [](Graph& g) { op<MatMul>(g).out = none; }},
    {"value written twice", [](Graph& g) { op<Rope>(g).out = 1; }},
    {"value of width 0", [](Graph& g) { g.values[5].width = 0; }},
    {"value of negative width", [](Graph& g) { g.values[5].width = -64; }},
    {"value of width 2^31 - 1", [](Graph& g) { g.values[5].width = huge; }},
    {"weight id outside", [](Graph& g) { op<MatMul>(g).weight = 4; }},
    {"weight id none", [](Graph& g) { op<MatMul>(g).weight = none; }},
    {"weight of another shape", [](Graph& g) { g.weights[2].rows = 9; }},
    {"weight of 0 columns", [](Graph& g) { g.weights[2].columns = 0; }},
    {"weight of 2^42 + 1 rows", [](Graph& g) { g.weights[2].rows = (std::int64_t{1} << 42) + 1; }},
    {"weight of negative rows", [](Graph& g) { g.weights[2].rows = -8; }},
    {"weight of 0 experts", [](Graph& g) { g.weights[3].experts = 0; }},
    {"weight of experts that a product has not", [](Graph& g) { g.weights[2].experts = 2; }},
    {"weight of no whole blocks",
     [](Graph& g) {
       g.weights[2].columns = 65;
       g.values[4].width = 65;
     }},
    {"weight without a type", [](Graph& g) { g.weights[2].type = WeightType::as_stored; }},
    {"weight of an unknown type", [](Graph& g) { g.weights[2].type = static_cast<WeightType>(200); }},
    {"norm weight that is not float", [](Graph& g) { g.weights[1].type = WeightType::q8_0; }},
    {"vocabulary that the embedding has not", [](Graph& g) { g.vocabulary = 101; }},
    {"vocabulary of 0", [](Graph& g) { g.vocabulary = 0; }},
    {"context of 0", [](Graph& g) { g.context = 0; }},
    {"context below 0", [](Graph& g) { g.context = -1; }},
    {"norm group of 0", [](Graph& g) { op<RmsNorm>(g).group = 0; }},
    {"norm group that does not divide", [](Graph& g) { op<RmsNorm>(g).group = 48; }},
    {"eps of 0", [](Graph& g) { op<RmsNorm>(g).eps = 0; }},
    {"eps that is no number", [](Graph& g) { op<RmsNorm>(g).eps = nan; }},
    {"rope heads of 0", [](Graph& g) { op<Rope>(g).heads = 0; }},
    {"rope heads whose product wraps",
     [](Graph& g) {
       op<Rope>(g).heads = 1 << 16;
       op<Rope>(g).head_width = 1 << 16;
     }},
    {"rope table outside", [](Graph& g) { op<Rope>(g).table = 1; }},
    {"rope table of no pair", [](Graph& g) { g.rope_tables[0].inverse_frequency.clear(); }},
    {"rope table wider than the head", [](Graph& g) { g.rope_tables[0].inverse_frequency.resize(17, 1.0F); }},
    {"rope frequency that is no number", [](Graph& g) { g.rope_tables[0].inverse_frequency[1] = nan; }},
    {"state group outside", [](Graph& g) { op<KvWrite>(g).slot.group = 1; }},
    {"state layer outside", [](Graph& g) { op<PagedAttention>(g).slot.layer = 1; }},
    {"state of 0 heads", [](Graph& g) { g.states[0].heads = 0; }},
    {"state of 0 layers", [](Graph& g) { g.states[0].layers = 0; }},
    {"state of negative width", [](Graph& g) { g.states[0].k_width = -32; }},
    {"state window below 0", [](Graph& g) { g.states[0].window = -1; }},
    {"state window without its kind", [](Graph& g) { g.states[0].window = 8; }},
    {"keys of another width", [](Graph& g) { g.states[0].k_width = 16; }},
    {"values missing", [](Graph& g) { op<KvWrite>(g).v = none; }},
    {"heads that KV heads do not divide", [](Graph& g) { op<PagedAttention>(g).heads = 3; }},
    {"attention of 0 heads", [](Graph& g) { op<PagedAttention>(g).heads = 0; }},
    {"attention scale that is no number", [](Graph& g) { op<PagedAttention>(g).scale = nan; }},
    {"attention cap below 0", [](Graph& g) { op<PagedAttention>(g).cap = -1.0F; }},
    {"sinks outside", [](Graph& g) { op<PagedAttention>(g).sinks = 99; }},
    {"gathering output rows again", [](Graph& g) { g.values[3].rows = Rows::outputs; }},
    {"product that changes the rows", [](Graph& g) { g.values[5].rows = Rows::tokens; }},
    {"more experts used than there are",
     [](Graph& g) {
       op<MoeRoute>(g).used = 9;
       g.values[6].width = 18;
     }},
    {"route of another width", [](Graph& g) { g.values[6].width = 6; }},
    {"route over fewer experts", [](Graph& g) { op<MoeRoute>(g).experts = 7; }},
    {"expert product of 0 used", [](Graph& g) { op<MoeMatMul>(g).used = 0; }},
    {"expert product over fewer experts than routed to", [](Graph& g) { g.weights[3].experts = 7; }},
    {"expert product with another value as its route", [](Graph& g) { op<MoeMatMul>(g).route = 4; }},
    {"expert product whose route is no route",
     [](Graph& g) {
       g.values[5].width = 4;
       g.weights[2].rows = 4;
       op<MoeRoute>(g).experts = 4;
       op<MoeMatMul>(g).route = 5;
       g.weights[3].experts = 4;
     }},
    {"combination of another width", [](Graph& g) { g.values[8].width = 15; }},
    {"groups with a hole",
     [](Graph& g) {
       g.groups = {{GroupKind::ffn, 0, 0, 4}, {GroupKind::ffn, 0, 5, 5}};
     }},
    {"groups that end early", [](Graph& g) { g.groups[0].count = 9; }},
    {"group beyond the ops", [](Graph& g) { g.groups[0].count = 11; }},
    {"group of negative length", [](Graph& g) { g.groups[0].count = -1; }},
    {"no groups", [](Graph& g) { g.groups.clear(); }},
    {"logits that nobody writes", [](Graph& g) { g.logits = 9; }},
    {"logits of every token", [](Graph& g) { g.logits = 3; }},
    {"hidden state that nobody writes", [](Graph& g) { g.hidden = -7; }},
};

class Zeros final : public WeightReader {
 public:
  Result<void> read_rows(WeightId, std::int64_t, std::int64_t, std::span<std::byte> out) const override {
    std::fill(out.begin(), out.end(), std::byte{0});
    return {};
  }
};

bool refused(ErrorCode code) { return code == ErrorCode::corrupt || code == ErrorCode::unsupported_type; }

/// Prints what was accepted, and returns how many.
int accepted(const char* device_name, const Backend& device) {
  int wrong = 0;
  const Limits limits{16, 2, 4};
  CompileOptions options;
  options.limits = limits;
  const auto good = device.compile(std::make_shared<const Graph>(good_graph()), Zeros(), options);
  if (!good) {
    std::printf("%s: the good graph is refused: %s\n", device_name, good.error().message.c_str());
    return 1;
  }
  for (const Fault& fault : faults) {
    Graph g = good_graph();
    fault.spoil(g);
    const auto plan = device.plan(g, limits, {KvType::f16, KvType::f16});
    const auto program = device.compile(std::make_shared<const Graph>(g), Zeros(), options);
    if (plan || !refused(plan.error().code)) ++wrong, std::printf("%s: plan accepts: %s\n", device_name, fault.name);
    if (program || !refused(program.error().code)) {
      ++wrong, std::printf("%s: compile accepts: %s\n", device_name, fault.name);
    }
  }
  std::printf("%s: %zu wrong graphs, %d accepted\n", device_name, std::size(faults), wrong);
  return wrong;
}

}  // namespace

int main() {
  cpu::CpuSettings settings;
  settings.threads = 1;
  const int wrong =
      accepted("reference", *device::make_reference_backend()) + accepted("cpu", *cpu::make_cpu_backend(settings));
  return wrong == 0 ? 0 : 1;
}
