// The reference device against the naive one. Both are precise, so no limit is above 2e-5: the oracle is checked far
// closer than what is checked with it.
#include <array>
#include <cstdio>

#include "device/common/kv_codec.h"
#include "device/reference/reference_backend.h"
#include "graph/cost.h"
#include "naive/naive_backend.hpp"
#include "quant/type_table.h"
#include "report.h"

namespace {

using namespace llminfer;

bool unpack(WeightType type, const std::byte* in, float* out, std::size_t n) {
  quant::find(type)->unpack_row(in, out, n);
  return true;
}

bool round_cached(KvType type, const float* in, std::int32_t width, float* out) {
  std::array<std::byte, 4096> row{};
  if (graph::kv_row_bytes(type, width) > row.size()) return false;
  device::encode_kv(type, in, width, row.data());
  device::decode_kv(type, row.data(), width, out);
  return true;
}

/// One weight in 300 is a tenth off: what the list must notice.
bool unpack_wrongly(WeightType type, const std::byte* in, float* out, std::size_t n) {
  unpack(type, in, out, n);
  for (std::size_t i = 7; i < n; i += 300) out[i] *= 1.1F;
  return true;
}

/// Returns 1 when a device that is wrong passes a case.
int try_planted_fault(const backend::Backend& reference) {
  const auto wrong = naive::make_backend({unpack_wrongly, round_cached});
  backend::OpCaseOptions options;
  options.refusals = false;
  int missed = 0;
  for (const char* filter :
       {"matmul/f32 64x33", "embed/q6_k 256", "moe_matmul/f32 shared input bias", "decoder/plain f32"}) {
    options.filter = filter;
    const auto results = backend::run_op_cases(*wrong, reference, options);
    if (!results) return 1;
    for (const backend::OpCaseResult& r : *results) {
      if (r.outcome == backend::OpCaseOutcome::failed) continue;
      std::printf("a wrong device passes %s\n", r.name.c_str());
      missed = 1;
    }
  }
  return missed;
}

}  // namespace

int main(int argc, char** argv) {
  backend::OpCaseOptions options;
  if (!tests::read_options(argc, argv, options)) return 2;
  const auto reference = device::make_reference_backend();
  const auto second_opinion = naive::make_backend({unpack, round_cached});
  const int first = tests::run_and_report("reference against naive", *reference, *second_opinion, options, 2e-5);
  // The naive device's refusals are tested too.
  options.filter = options.filter.empty() ? "refuse/" : options.filter;
  const int second = tests::run_and_report("naive against reference", *second_opinion, *reference, options);
  return first + second + try_planted_fault(*reference);
}
