#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include <llminfer/error.hpp>

#include "catch.h"
#include "quant/type_table.h"

using namespace llminfer;

namespace {
constexpr WeightType last_type = WeightType::mxfp4;  // the enum's last value

std::string message_of(WeightType type, std::uint64_t n) {
  try {
    quant::row_bytes(type, n);
  } catch (const Exception& error) {
    CHECK(error.error().code == ErrorCode::invalid_argument);
    return error.error().message;
  }
  return "no error";
}
}  // namespace

TEST_CASE("the table has one row for each weight type, found by type and by number") {
  CHECK(quant::all_types().size() == static_cast<std::size_t>(last_type));
  for (const quant::QuantType& row : quant::all_types()) {
    INFO(row.info.name);
    CHECK(quant::find(row.info.type) == &row);
    CHECK(quant::find_gguf(row.gguf_id) == &row);
    CHECK(&describe(row.info.type) == &row.info);
    CHECK(row.unpack_row != nullptr);
  }
}

TEST_CASE("what is no format is not found") {
  CHECK(quant::find(WeightType::as_stored) == nullptr);
  CHECK(quant::find(static_cast<WeightType>(static_cast<int>(last_type) + 1)) == nullptr);
  CHECK(quant::find(static_cast<WeightType>(255)) == nullptr);
  CHECK(describe(WeightType::as_stored).name == "as_stored");
  CHECK(describe(static_cast<WeightType>(255)).block_size == 0);
  // Numbers that ggml has given up or that are no weights: whole numbers, doubles, blocks of activations.
  for (std::uint32_t id : {4u, 5u, 9u, 15u, 24u, 27u, 28u, 31u, 36u, 0xffffffffu})
    CHECK(quant::find_gguf(id) == nullptr);
}

TEST_CASE("the formats that weights can be rounded to at load have a packer") {
  for (WeightType type : {WeightType::f32, WeightType::f16, WeightType::bf16, WeightType::q4_0, WeightType::q4_1,
                          WeightType::q5_0, WeightType::q5_1, WeightType::q8_0}) {
    INFO(describe(type).name);
    CHECK(quant::find(type)->pack_row != nullptr);
  }
}

TEST_CASE("bytes of a row") {
  CHECK(quant::row_bytes(WeightType::f32, 3) == 12);
  CHECK(quant::row_bytes(WeightType::q4_0, 64) == 36);
  CHECK(quant::row_bytes(WeightType::q6_k, 512) == 420);
  CHECK(quant::row_bytes(WeightType::mxfp4, 32) == 17);
  CHECK(quant::row_bytes(WeightType::q8_0, 0) == 0);
  CHECK(quant::try_row_bytes(WeightType::q4_k, 0xffffffffffffff00u) == 0xffffffffffffffu * 144u);
}

TEST_CASE("rows that cannot be") {
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  CHECK_FALSE(quant::try_row_bytes(WeightType::as_stored, 32));
  CHECK_FALSE(quant::try_row_bytes(WeightType::q4_k, 128));
  CHECK_FALSE(quant::try_row_bytes(WeightType::f16, most));
  CHECK_FALSE(quant::try_row_bytes(WeightType::q8_0, most - 31));
  CHECK(message_of(WeightType::q4_k, 255).find("255 weights is no whole number of Q4_K blocks") != std::string::npos);
  CHECK(message_of(WeightType::f32, most).find("18446744073709551615 weights of type F32") != std::string::npos);
  CHECK(message_of(static_cast<WeightType>(99), 1).find("99") != std::string::npos);
}
