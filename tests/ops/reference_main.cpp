// The reference device against the naive one. Both are precise, so no limit is above 2e-5: the oracle is checked far
// closer than what is checked with it.
#include <array>

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
  return first + second;
}
