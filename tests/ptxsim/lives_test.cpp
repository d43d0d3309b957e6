// Values live until the end of the launches that touch them: checked with the launches that steps of decoders really
// make, for lives as they are planned and for lives with a mistake.
#include <algorithm>
#include <set>
#include <string>

#include "host/launch_lives.h"
#include "host/program.h"
#include "steps_run.h"

namespace ptxsim::tests {
namespace {

/// The first op of a launch, and how many are it.
using Launches = std::set<std::pair<std::int32_t, std::int32_t>>;

struct Spans final : backend::ProfileSink {
  void on_span(const backend::OpSpan& span) noexcept override { seen.insert({span.first_op, span.op_count}); }
  Launches seen{};
};

/// Of steps with prompts and without, with many rows and with few.
Launches launches_of(const Device& d, const Kind& kind) {
  Spans spans;
  Run run(*d.program, kind.width);
  for (const auto& [n, count] : {std::pair{sequences, 4}, {sequences, 1}, {4, 1}, {1, 1}, {1, 9}}) {
    run.step(n, count, &spans);
  }
  return spans.seen;
}

/// Adds the launches that only recorded steps have, of which no span tells: experts with what adds them up, products
/// with what is done with their heads, and norms behind sums.
void add_folded(const backend::Graph& graph, const cuda::Fusions& fusions, Launches& launches) {
  Launches more;
  const auto with_norm = [&](std::int32_t first, std::int32_t end) {
    const auto n = static_cast<std::size_t>(end);
    if (n >= graph.ops.size() || (!fusions.into_fragments[n] && !fusions.also_into_fragments[n])) return;
    const auto* norm = std::get_if<backend::RmsNorm>(&graph.ops[n]);
    const auto* add = std::get_if<backend::Add>(&graph.ops[n - 1]);
    if (norm != nullptr && add != nullptr && norm->in == add->out) more.insert({first, end + 1 - first});
  };
  for (const auto& [first, count] : launches) {
    if (count > 1) with_norm(first, first + count);
    const auto n = static_cast<std::size_t>(first);
    if (fusions.makes_heads[n] > 0) more.insert({first, fusions.makes_heads[n]});
    if (!fusions.combines_next[n]) continue;
    more.insert({first, 2});
    if (!fusions.adds_next[n + 1]) continue;
    more.insert({first, 3});
    with_norm(first, first + 3);
  }
  launches.insert(more.begin(), more.end());
}

/// What the ops of a launch read and write. A gathered value may be the one that it is gathered from.
std::set<ValueId> touched(const backend::Graph& graph, const cuda::Fusions& fusions, std::int32_t first,
                          std::int32_t count) {
  std::set<ValueId> all;
  for (std::int32_t i = first; i < first + count; ++i) {
    const graph::OpIo io = graph::io_of(graph.ops[static_cast<std::size_t>(i)]);
    for (const ValueId id : io.in) {
      if (id == none) continue;
      all.insert(id);
      all.insert(fusions.gathered_from[static_cast<std::size_t>(id)]);
    }
    if (io.out != none) all.insert(io.out);
  }
  return all;
}

/// Per op of `graph`, where it is in `longer`, which has others between them.
std::vector<std::size_t> places_of(const backend::Graph& graph, const backend::Graph& longer) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < longer.ops.size(); ++i) {
    const ValueId out = graph::io_of(longer.ops[i]).out;
    if (out == none || static_cast<std::size_t>(out) < graph.values.size()) places.push_back(i);
  }
  REQUIRE(places.size() == graph.ops.size());
  return places;
}

/// Values that `longer` lets die before the end of a launch that touches them.
std::vector<std::string> dying_early(const backend::Graph& graph, const backend::Graph& longer,
                                     const cuda::Fusions& fusions, const Launches& launches) {
  std::vector<std::size_t> last(longer.values.size());
  for (std::size_t i = 0; i < longer.ops.size(); ++i) {
    const graph::OpIo io = graph::io_of(longer.ops[i]);
    if (io.out != none) last[static_cast<std::size_t>(io.out)] = i;
    for (const ValueId id : io.in) {
      if (id != none) last[static_cast<std::size_t>(id)] = i;
    }
  }
  for (const ValueId id : {graph.logits, graph.hidden}) last[static_cast<std::size_t>(id)] = longer.ops.size();
  const std::vector<std::size_t> places = places_of(graph, longer);
  std::vector<std::string> found;
  for (const auto& [first, count] : launches) {
    const std::size_t end = places[static_cast<std::size_t>(first + count - 1)];
    for (const ValueId id : touched(graph, fusions, first, count)) {
      if (last[static_cast<std::size_t>(id)] >= end) continue;
      found.push_back("value " + std::to_string(id) + " in ops " + std::to_string(first) + " to " +
                      std::to_string(first + count - 1));
    }
  }
  return found;
}

/// Values of one launch that have memory in common.
int sharing(const backend::Graph& graph, const llminfer::graph::MemoryPlan& plan, const backend::Limits& limits,
            const cuda::Fusions& fusions, const Launches& launches) {
  int found = 0;
  const auto begin = [&](ValueId id) { return plan.offsets[static_cast<std::size_t>(id)]; };
  const auto end = [&](ValueId id) {
    return begin(id) + llminfer::graph::value_bytes(graph.values[static_cast<std::size_t>(id)], limits);
  };
  for (const auto& [first, count] : launches) {
    const std::set<ValueId> all = touched(graph, fusions, first, count);
    for (const ValueId a : all) {
      for (const ValueId b : all) found += a < b && begin(a) < end(b) && begin(b) < end(a) ? 1 : 0;
    }
  }
  return found;
}

struct Mistake {
  const char* name;
  void (*make)(cuda::Fusions&);
};
template <auto Member>
void forget(cuda::Fusions& f) {
  (f.*Member).assign((f.*Member).size(), {});
}
/// What whoever plans lives could overlook.
const Mistake mistakes[] = {
    {"additions", forget<&cuda::Fusions::adds_next>},
    {"additions behind norms", forget<&cuda::Fusions::adds_normed>},
    {"norms",
     [](cuda::Fusions& f) {
       forget<&cuda::Fusions::into_fragments>(f);
       forget<&cuda::Fusions::also_into_fragments>(f);
     }},
    {"gates", forget<&cuda::Fusions::gates_next>},
    {"slices",
     [](cuda::Fusions& f) {
       forget<&cuda::Fusions::slices>(f);
       forget<&cuda::Fusions::gates_slices>(f);
     }},
    {"gates of slices", forget<&cuda::Fusions::gates_slices>},
    {"experts combined", forget<&cuda::Fusions::combines_next>},
    {"rotations", forget<&cuda::Fusions::rotates_into_cache>},
    {"heads of products", forget<&cuda::Fusions::makes_heads>},
    {"gathered rows",
     [](cuda::Fusions& f) {
       for (std::size_t id = 0; id < f.gathered_from.size(); ++id) f.gathered_from[id] = static_cast<ValueId>(id);
     }},
};

}  // namespace

TEST_CASE("values live until the end of the launches that touch them, and a plan that forgets some is found out") {
  Kind plain, norms, gemma, fused, experts, apart;
  norms.head_norms = true;
  gemma.head_norms = gemma.post_norms = true;
  fused.fused = true;
  experts.experts = true;
  apart.values = WeightType::f32;  // rotations are a launch of their own
  std::set<std::string> found_out;
  int overlaps = 0;
  for (const Kind& kind : {plain, norms, gemma, fused, experts, apart}) {
    const Device d(kind);
    const auto& program = dynamic_cast<const cuda::CudaProgram&>(*d.program);
    const backend::Graph& graph = program.graph();
    const cuda::Fusions& fusions = program.fusions();
    Launches launches = launches_of(d, kind);
    add_folded(graph, fusions, launches);
    const auto lives_with = [&](const cuda::Fusions& f) {
      return dying_early(graph, cuda::with_lives_of_launches(graph, f), fusions, launches);
    };
    for (const std::string& what : lives_with(fusions)) FAIL_CHECK(what);
    CHECK(sharing(graph, program.plan().values, program.limits(), fusions, launches) == 0);
    // The graph as it is; then all launches but those of one kind.
    CHECK_FALSE(dying_early(graph, graph, fusions, launches).empty());
    overlaps +=
        sharing(graph, llminfer::graph::plan_memory(graph, program.limits()), program.limits(), fusions, launches);
    for (const Mistake& m : mistakes) {
      cuda::Fusions wrong = fusions;
      m.make(wrong);
      if (!lives_with(wrong).empty()) found_out.insert(m.name);
    }
  }
  CHECK(overlaps > 0);
  for (const Mistake& m : mistakes) {
    INFO(m.name);
    CHECK(found_out.count(m.name) == 1);
  }
  no_findings();
}

}  // namespace ptxsim::tests
