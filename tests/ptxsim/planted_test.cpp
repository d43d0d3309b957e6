// Every check finds its planted bugs, in every order, and is silent about their clean twins.
#include <string>

#include "catch.h"
#include "support.h"

namespace ptxsim::tests {
namespace {

constexpr int n = 128;

Check check_named(const std::string& kernel) {
  for (int c = 0; c <= static_cast<int>(Check::launch); ++c) {
    const std::string name = name_of(static_cast<Check>(c));
    if (kernel.compare(0, name.size(), name) == 0) return static_cast<Check>(c);
  }
  return Check::unsupported;
}

LaunchResult run(const Module& module, const std::string& kernel, const Options& options, std::vector<float>& y,
                 std::uint32_t cluster = 1) {
  DeviceMemory memory;
  GlobalTracker tracker;
  std::vector<float> x(n);
  for (int i = 0; i < n; ++i) x[static_cast<std::size_t>(i)] = static_cast<float>(i + 1);
  float* device_x = upload(memory, x);
  float* device_y = upload(memory, std::vector<float>(n));
  int* counter = upload(memory, std::vector<int>(1));
  const auto launch_one = [&](const std::string& name, const Options& o) {
    return launch(module.kernels.find(name)->second, {{2, 1, 1}, {64, 1, 1}, 0, {cluster, 1, 1}},
                  parameters(device_y, device_x, counter, n), memory, tracker, o);
  };
  Options here = options;
  if (kernel.find("grid_order") != std::string::npos) {
    here.early = true;
    CHECK(launch_one("ok_grid_first", options).findings.empty());
  }
  LaunchResult r = launch_one(kernel, here);
  y.assign(device_y, device_y + n);
  return r;
}

/// All kernels of a file in all modes.
void run_all(const std::string& file, int& bugs, int& twins, std::uint32_t cluster = 1) {
  const Module module = parse_module(read_file(PTXSIM_PTX_DIR "/" + file + ".ptx"));
  for (const auto& [name, kernel] : module.kernels) {
    std::vector<float> first;
    for (const Options& options : all_modes()) {
      INFO(name << ", order " << static_cast<int>(options.order) << ", async " << static_cast<int>(options.async));
      std::vector<float> y;
      const LaunchResult r = run(module, name, options, y, cluster);
      if (name.compare(0, 4, "bug_") == 0) {
        const Check expected = check_named(name.substr(4));
        bool found = false;
        std::string all;
        // Which of two racing accesses comes first decides whether it is seen as a race or as a read of nothing;
        // whether the wait for a wrong phase is over at once or never.
        for (const Finding& f : r.findings) {
          const bool other = f.check == Check::uninitialised ||
                             (f.check == Check::deadlock && name.find("_parity") != std::string::npos);
          found = found || f.check == expected || (expected == Check::shared_race && other);
          CHECK(f.source.find(file + ".cu:") == 0);
          all += std::string("\n") + name_of(f.check) + " " + f.source + " " + f.text;
        }
        INFO("findings:" << all);
        CHECK((found || (options.async == AsyncMode::early && name.find("_late_") != std::string::npos)));
        ++bugs;
      } else {
        for (const Finding& f : r.findings) FAIL_CHECK(name_of(f.check) << " " << f.source << " " << f.text);
        CHECK(r.completed);
        if (first.empty()) first = y;
        CHECK(first == y);  // the same bits in every mode
        ++twins;
      }
    }
  }
}

}  // namespace

TEST_CASE("planted bugs are found and their twins are clean") {
  int bugs = 0, twins = 0;
  run_all("planted", bugs, twins);
  CHECK(bugs == 6 * 19);
  CHECK(twins == 6 * 20);
}

TEST_CASE("planted bugs of mbarriers, bulk copies and early launches are found and their twins are clean") {
  int bugs = 0, twins = 0;
  run_all("planted_copies", bugs, twins);
  CHECK(bugs == 6 * 18);
  CHECK(twins == 6 * 9);
}

TEST_CASE("planted bugs of clusters are found and their twins are clean") {
  int bugs = 0, twins = 0;
  run_all("planted_clusters", bugs, twins, 2);
  CHECK(bugs == 6 * 21);
  CHECK(twins == 6 * 20);
}

TEST_CASE("a cluster that no GPU takes is not launched") {
  const Module module = parse_module(read_file(PTXSIM_PTX_DIR "/planted_clusters.ptx"));
  for (const std::uint32_t cluster : {0U, 3U, 16U}) {
    std::vector<float> y;
    const LaunchResult r = run(module, "ok_cluster_begin", all_modes().front(), y, cluster);
    CHECK_FALSE(r.completed);
    REQUIRE(r.findings.size() == 1);
    CHECK(r.findings[0].check == Check::launch);
  }
}

TEST_CASE("a block that waits for one that is not resident is a deadlock") {
  const Module module = parse_module(read_file(PTXSIM_PTX_DIR "/planted.ptx"));
  Options options = all_modes().front();
  options.resident_blocks = 1;
  std::vector<float> y;
  const LaunchResult r = run(module, "spin_for_other_block", options, y);
  REQUIRE_FALSE(r.completed);
  REQUIRE(r.findings.size() == 1);
  CHECK(r.findings[0].check == Check::deadlock);
  CHECK(r.findings[0].text.find("planted.cu:") != std::string::npos);
}

}  // namespace ptxsim::tests
