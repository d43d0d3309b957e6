// How attention on tensor cores reads keys and values, counted by the simulator: each byte once, and by 16 bytes a
// lane.
#include "kernels/attention_mma.h"
#include "matmul_problem.h"

namespace ptxsim::tests {
namespace {

/// Of one token with `keys` keys behind it, `group` query heads on each of two KV heads.
Counters attention_counters(int width, int group, int keys) {
  constexpr int kv_heads = 2;
  const int pages = (keys + cuda::kv_page - 1) / cuda::kv_page;
  const std::int64_t block = cuda::kv_block_bytes(KvType::f16, width);
  std::mt19937 random(7);
  const auto halves = [&] {
    std::vector<std::uint16_t> v(static_cast<std::size_t>(pages * kv_heads * block / 2));
    for (std::uint16_t& h : v) h = llminfer::core::f32_to_f16(static_cast<float>(random() % 256) / 256.0F - 0.5F);
    return v;
  };
  std::vector<std::int32_t> numbers;
  for (int p = 0; p < pages; ++p) numbers.push_back(pages - 1 - p);
  cuda::AttentionParams p;
  p.q = to_device(std::vector<float>(static_cast<std::size_t>(kv_heads * group * width), 0.5F));
  p.out = to_device(std::vector<float>(static_cast<std::size_t>(kv_heads * group * width)));
  p.k = {reinterpret_cast<std::uint8_t*>(to_device(halves())), kv_heads * block, 0, block, width, KvType::f16};
  p.v = {reinterpret_cast<std::uint8_t*>(to_device(halves())), kv_heads * block, 0, block, width, KvType::f16};
  p.step.positions = to_device(std::vector<std::int32_t>{keys - 1});
  p.step.sequence_of = to_device(std::vector<std::int32_t>{0});
  p.step.last = to_device(std::vector<std::int32_t>{keys - 1});
  p.step.pages = to_device(numbers);
  p.step.pages_at = to_device(std::vector<std::int32_t>{0});
  p.step.longest = to_device(std::vector<std::int32_t>{keys});
  p.tokens = 1;
  p.heads = kv_heads * group;
  p.kv_heads = kv_heads;
  SimulatedDevice& device = simulated_device();
  device.record_launches = true;
  device.launches.clear();
  REQUIRE(launch_attention_mma(p, {}, nullptr) == cudaSuccess);
  device.record_launches = false;
  no_findings();
  REQUIRE(device.launches.size() == 1);
  return device.launches[0].counters;
}

double wide_share(const ArgumentCounts& a) {
  return static_cast<double>(a.wide_sectors) / static_cast<double>(a.sectors);
}

}  // namespace

TEST_CASE("keys and values are read once, by 16 bytes a lane") {
  constexpr int keys = 160;
  for (const int width : {64, 80, 96, 128, 256}) {
    for (const int group : {1, 4}) {
      INFO("heads of " << width << ", " << group << " on a KV head");
      const Counters c = attention_counters(width, group, keys);
      const double bytes = 2.0 * 2 * width * keys;
      const ArgumentCounts* k = argument(c, offsetof(cuda::AttentionParams, k.data));
      const ArgumentCounts* v = argument(c, offsetof(cuda::AttentionParams, v.data));
      REQUIRE(k != nullptr);
      REQUIRE(v != nullptr);
      for (const ArgumentCounts* a : {k, v}) {
        CHECK(32.0 * static_cast<double>(a->unique_sectors) <= 1.02 * bytes);
        CHECK(32.0 * static_cast<double>(a->sectors) <= 1.02 * bytes);
      }
      // Heads that are no multiple of 64 end in columns that give a lane 8 or 4 bytes.
      CHECK(wide_share(*k) >= (width == 80 ? 0.79 : 0.95));
      CHECK(wide_share(*v) >= (width == 80 ? 0.79 : width == 96 ? 0.66 : 0.95));
    }
  }
}

}  // namespace ptxsim::tests
