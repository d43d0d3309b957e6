// The cases in tests/golden/quant/rows.bin, written by compare_with_gguf.py.
#include <fstream>
#include <set>
#include <string>

#include "case_file.h"
#include "catch.h"

TEST_CASE("every format agrees with the gguf package on the golden rows") {
  std::ifstream file(LLMINFER_GOLDEN_FILE, std::ios::binary);
  REQUIRE(file.is_open());
  std::set<std::string_view> unpacked, packed;
  while (const auto record = quant_test::read_case(file)) {
    INFO(record->type->info.name << (record->packs ? " pack" : " unpack"));
    REQUIRE((!record->packs || record->type->pack_row != nullptr));
    const auto at = quant_test::first_difference(*record);
    INFO("differs at " << at.value_or(0));
    CHECK_FALSE(at.has_value());
    (record->packs ? packed : unpacked).insert(record->type->info.name);
  }
  for (const auto& type : quant_test::quant::all_types()) {
    INFO(type.info.name);
    CHECK(unpacked.count(type.info.name) == 1);
    CHECK(packed.count(type.info.name) == (type.pack_row != nullptr ? 1u : 0u));
  }
}
