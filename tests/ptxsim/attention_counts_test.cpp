// What attention on tensor cores asks for and does, counted by the simulator. With one token behind a sequence each
// byte of keys and values is read once, and by 16 bytes a lane; a prompt reads them once for 64 rows of queries. Counts
// are held by attention_counts.json: `ptxsim_attention "[write]"` writes it anew and prints the table of docs/cuda.md.
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "attention_problem.h"

namespace ptxsim::tests {
namespace {

using Json = nlohmann::ordered_json;

struct Format {
  KvType type;
  const char* name;
};
constexpr Format formats[] = {
    {KvType::f16, "f16"}, {KvType::bf16, "bf16"}, {KvType::q8_0, "q8_0"}, {KvType::q4_0, "q4_0"}};
constexpr int widths[] = {64, 80, 96, 128, 256};
constexpr int group = 4, keys = 160, prompt = 512;

Counters counters_of(const AttentionShape& shape) {
  AttentionProblem p(shape);
  SimulatedDevice& device = simulated_device();
  device.record_launches = true;
  device.launches.clear();
  p.run();
  device.record_launches = false;
  no_findings();
  REQUIRE(device.launches.size() == 1);
  return device.launches[0].counters;
}

AttentionShape shape_of(KvType type, int width, int heads, int before, int count) {
  AttentionShape s;
  s.type = type;
  s.width = width;
  s.kv_heads = 1;
  s.group = heads;
  s.sequences = {{before, count}};
  return s;
}
Counters of_one_token(KvType type, int width, int heads) {
  return counters_of(shape_of(type, width, heads, keys - 1, 1));
}
Counters of_prompt(KvType type, int width) { return counters_of(shape_of(type, width, group, 0, prompt)); }

const ArgumentCounts& side_of(const Counters& c, bool values) {
  const ArgumentCounts* a =
      argument(c, values ? offsetof(cuda::AttentionParams, v.data) : offsetof(cuda::AttentionParams, k.data));
  REQUIRE(a != nullptr);
  return *a;
}

double requested_bytes(const Counters& c) {
  return 32.0 * static_cast<double>(side_of(c, false).sectors + side_of(c, true).sectors);
}
double lanes_per_pair(const Counters& c) {
  return static_cast<double>(c.lane_instructions) / (group * prompt * (prompt + 1) / 2.0);
}
/// Issue of instructions by tensor instructions, as times of an H200. Rates: forecast_test.cpp.
double issue_by_tensor(const Counters& c) {
  return static_cast<double>(c.warp_instructions) / 1.25 / (4 * 132 * 1.98e9) /
         (4096 * static_cast<double>(c.mma) / (0.62 * 790e12));
}

/// Of a key more, behind a token: time of what takes longest by that of memory, on an H200.
double longest_by_memory(KvType type, int width) {
  const Counters less = counters_of(shape_of(type, width, group, keys - 1, 1)),
                 more = counters_of(shape_of(type, width, group, 4 * keys - 1, 1));
  const auto of = [&](auto Counters::*member) { return static_cast<double>(more.*member - less.*member); };
  constexpr double clocks = 132 * 1.98e9;
  const double others[] = {of(&Counters::global_sectors) / (4 * clocks),
                           of(&Counters::warp_instructions) / 1.25 / (4 * clocks),
                           of(&Counters::shared_wavefronts) / clocks, 4096 * of(&Counters::mma) / (0.62 * 790e12)};
  return *std::max_element(std::begin(others), std::end(others)) / (32 * of(&Counters::unique_sectors) / 4.3e12);
}

Json numbers_of(const Counters& c) {
  return {{"lane_instructions", c.lane_instructions},
          {"global_sectors", c.global_sectors},
          {"unique_sectors", c.unique_sectors},
          {"shared_wavefronts", c.shared_wavefronts},
          {"matrix_instructions", c.mma},
          {"bytes_not_in_16s", c.global_bytes - c.global_wide_bytes}};
}

Json all_numbers() {
  Json all;
  for (const Format& f : formats) {
    for (const int width : widths) {
      const std::string name = std::string(f.name) + ", heads of " + std::to_string(width);
      all[name + ", one token"] = numbers_of(of_one_token(f.type, width, group));
      if (width == 64 || width == 128) all[name + ", prompt"] = numbers_of(of_prompt(f.type, width));
    }
  }
  return all;
}

}  // namespace

TEST_CASE("keys and values are read once, by 16 bytes a lane") {
  for (const Format& f : formats) {
    for (const int width : widths) {
      for (const int heads : {1, group}) {
        INFO(f.name << ", heads of " << width << ", " << heads << " on a KV head");
        const Counters c = of_one_token(f.type, width, heads);
        const double bytes = static_cast<double>(cuda::kv_block_bytes(f.type, width)) * keys / cuda::kv_page;
        for (const bool values : {false, true}) {
          const ArgumentCounts& a = side_of(c, values);
          CHECK(32.0 * static_cast<double>(a.unique_sectors) <= 1.02 * bytes);
          CHECK(32.0 * static_cast<double>(a.sectors) <= 1.02 * bytes);
          CHECK(static_cast<double>(a.wide_sectors) >= 0.95 * static_cast<double>(a.sectors));
        }
      }
    }
  }
}

TEST_CASE("what takes longest of a token's attention is memory, by the counts") {
  for (const Format& f : formats) {
    for (const int width : widths) {
      INFO(f.name << ", heads of " << width);
      CHECK(longest_by_memory(f.type, width) <= 1);
    }
  }
}

TEST_CASE("a prompt reads keys and values once for 64 rows") {
  for (const Format& f : formats) {
    for (const int width : {64, 128}) {
      INFO(f.name << ", heads of " << width);
      const Counters c = of_prompt(f.type, width);
      // 16 tokens a tile: of those before it all keys, and of its own a page.
      const double block = static_cast<double>(cuda::kv_block_bytes(f.type, width));
      CHECK(requested_bytes(c) <= 1.02 * 2 * block * (prompt / 16.0) * (prompt / 16.0 + 1) / 2);
      CHECK(static_cast<double>(c.shared_wavefronts) <= 1.05 * static_cast<double>(c.shared_ideal));
      CHECK(lanes_per_pair(c) <= 48);
      CHECK(issue_by_tensor(c) <= 1.25);
    }
  }
}

TEST_CASE("counts of attention stay at those of attention_counts.json or below") {
  std::ifstream file(PTXSIM_ATTENTION_COUNTS);
  const Json committed = Json::parse(file);
  if (committed["nvcc"] != PTXSIM_NVCC_VERSION) {
    WARN("nvcc " << PTXSIM_NVCC_VERSION << ", the counts are of " << committed["nvcc"] << ": not compared");
    return;
  }
  const Json now = all_numbers();
  CHECK(now.size() == committed["attention"].size());
  for (const auto& [shape, numbers] : now.items()) {
    for (const auto& [name, value] : numbers.items()) {
      INFO(shape << ", " << name);
      CHECK(value.get<std::uint64_t>() <= committed.at("attention").at(shape).at(name).get<std::uint64_t>());
    }
  }
}

TEST_CASE("attention_counts.json is written", "[.][write]") {
  std::ofstream(PTXSIM_ATTENTION_COUNTS) << Json{{"nvcc", PTXSIM_NVCC_VERSION},
                                                 {"shape",
                                                  "4 heads on one KV head; one token behind 159, or a prompt "
                                                  "of 512"},
                                                 {"attention", all_numbers()}}
                                                .dump(1)
                                         << "\n";
  for (const Format& f : formats) {
    std::printf("| %s |", f.name);
    for (const int width : {64, 128}) {
      const Counters c = of_prompt(f.type, width);
      std::printf(" %.2f | %.1f | %.2f | %.2f |", requested_bytes(c) / 1e6, lanes_per_pair(c), issue_by_tensor(c),
                  longest_by_memory(f.type, width));
    }
    std::printf("\n");
  }
}

}  // namespace ptxsim::tests
