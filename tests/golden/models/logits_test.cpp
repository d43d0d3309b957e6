// Tiny random models, one per architecture and RoPE scaling: logits equal llama.cpp's (see make_models.py).
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "cases.h"
#include "catch.h"
#include "device/cpu/cpu_backend.h"
#include "device/cpu/schedule.h"
#include "device/reference/reference_backend.h"
#include "model_run.h"
#include "models/registry.h"

using namespace llminfer;
using test::Case;
using test::cases;
using test::exact;
using test::golden_of;
using test::path_of;

namespace {

struct Difference {
  double worst = 0;
  std::vector<double> mean_squares{};  // of each row, rising
  int first_choice = 0;                // rows whose best token is the golden's
};

Difference compare(const test::Golden& golden, const std::vector<float>& logits) {
  Difference d;
  const auto width = static_cast<std::size_t>(golden.vocabulary);
  for (const test::GoldenRow& row : golden.rows) {
    double& mean_square = d.mean_squares.emplace_back(0.0);
    const float* ours = logits.data() + static_cast<std::size_t>(row.position) * width;
    for (std::size_t i = 0; i < width; ++i) {
      const double difference = std::fabs(double{ours[i]} - row.logits[i]);
      d.worst = std::isnan(difference) ? INFINITY : std::max(d.worst, difference);
      mean_square += std::isnan(difference) ? INFINITY : difference * difference / static_cast<double>(width);
    }
    const auto best = std::max_element(row.logits.begin(), row.logits.end()) - row.logits.begin();
    if (std::max_element(ours, ours + width) - ours == best) ++d.first_choice;
  }
  std::sort(d.mean_squares.begin(), d.mean_squares.end());
  return d;
}

/// Root of the mean square of all rows but the `without` worst.
double rms(const Difference& d, std::ptrdiff_t without = 0) {
  const auto rows = static_cast<std::ptrdiff_t>(d.mean_squares.size()) - without;
  return std::sqrt(std::accumulate(d.mean_squares.begin(), d.mean_squares.begin() + rows, 0.0) /
                   static_cast<double>(rows));
}

test::ModelRun open(const Case& c, const std::shared_ptr<backend::Backend>& device,
                    WeightType type = WeightType::as_stored) {
  return {path_of(std::string(c.model) + ".gguf"), device, {c.context, type}};
}

}  // namespace

TEST_CASE("tiny models: the reference device equals llama.cpp") {
  const auto device = device::make_reference_backend();
  for (const Case& c : cases) {
    const test::Golden golden = golden_of(c);
    REQUIRE(golden.context == c.context);
    test::ModelRun run = open(c, device);
    REQUIRE(run.graph().vocabulary == golden.vocabulary);
    const Difference d = compare(golden, run.logits(golden.tokens, 128));
    INFO(c.model << " at context " << c.context << ": worst difference of a logit " << d.worst << ", rms " << rms(d));
    CHECK(d.worst <= c.tolerance);
    CHECK(d.first_choice == static_cast<int>(golden.rows.size()));
  }
}

TEST_CASE("tiny models: chunks change nothing on the reference device") {
  const auto device = device::make_reference_backend();
  for (const Case& c : cases) {
    const test::Golden golden = golden_of(c);
    test::ModelRun run = open(c, device);
    const Difference d = compare(golden, run.logits(golden.tokens, 7));
    INFO(c.model << " at context " << c.context << ": worst difference of a logit " << d.worst);
    CHECK(d.worst <= c.tolerance);
  }
}

TEST_CASE("tiny models: a layer has at most five barriers in decode on the cpu device, with experts six") {
  for (const Case& c : cases) {
    const format::ModelFile file = format::ModelFile::open(ModelSource::file(path_of(std::string(c.model) + ".gguf")));
    const models::ModelGraph model = models::build_model(file, file.hyper_parameters(), {});
    const backend::Graph& graph = *model.graph;
    const cpu::Schedule schedule =
        cpu::make_schedule(graph, {4, 4, 4}, cpu::ScheduleKind::few_rows, std::make_shared<core::Memory>());
    std::map<int, int> barriers, most;  // by layer
    for (const backend::OpGroup& group : graph.groups) {
      for (const cpu::Phase& phase : schedule.phases) {
        const bool inside = phase.first_op >= group.first && phase.first_op < group.first + group.count;
        if (inside && cpu::Schedule::has_barrier(phase)) ++barriers[group.layer];
      }
      const auto first = graph.ops.begin() + group.first;
      const bool experts = std::any_of(first, first + group.count, [](const backend::Op& op) {
        return std::holds_alternative<backend::MoeRoute>(op);
      });
      most[group.layer] = std::max(most[group.layer], experts ? 6 : 5);
    }
    for (const auto& [layer, count] : barriers) {
      INFO(c.model << " layer " << layer);
      CHECK(count <= most[layer]);
    }
  }
}

TEST_CASE("tiny models: the cpu device agrees") {
  const auto device = cpu::make_cpu_backend({});
  for (const Case& c : cases) {
    const test::Golden golden = golden_of(c);
    test::ModelRun run = open(c, device);
    for (const int chunk : {128, 7}) {
      const Difference d = compare(golden, run.logits(golden.tokens, chunk));
      INFO(c.model << " at context " << c.context << ", chunks of " << chunk << ": worst difference of a logit "
                   << d.worst << ", rms " << rms(d));
      if (c.quantized) {
        // Rounded activations may turn a choice between two experts that are nearly equal, in a row or two.
        const bool experts = std::string(c.model).find("moe") != std::string::npos || c.model == std::string("mixtral");
        CHECK(rms(d, experts ? 1 : 0) <= 0.1);
        CHECK(rms(d) <= (experts ? 0.3 : 0.1));
      } else {
        CHECK(d.worst <= c.tolerance);
      }
    }
  }
}

TEST_CASE("tiny models: every architecture has one") {
  std::set<std::string> seen;
  for (const Case& c : cases) {
    const format::ModelFile file = format::ModelFile::open(ModelSource::file(path_of(std::string(c.model) + ".gguf")));
    seen.insert(file.architecture());
  }
  for (const std::string_view name : models::architecture_names()) {
    INFO(name);
    CHECK(seen.count(std::string(name)) == 1);
  }
}

TEST_CASE("tiny models: LongRoPE's factors are chosen by the context") {
  const auto device = device::make_reference_backend();
  const Case short_context{"phi3", 256, exact, false};
  const Case long_context{"phi3", 512, exact, false};
  const test::Golden golden = golden_of(long_context);
  test::ModelRun run = open(short_context, device);
  CHECK(compare(golden, run.logits(golden.tokens, 128)).worst > 0.1);
}
