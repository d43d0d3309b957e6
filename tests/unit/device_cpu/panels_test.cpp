// Packed panels hold the file's bits; every instruction set unpacks them to the same slab.
#include <cstring>
#include <llminfer/error.hpp>
#include <string>

#include "catch.h"
#include "device/cpu/kernels.h"
#include "device/cpu/panel_layout.h"
#include "random_rows.h"

namespace llminfer::cpu::test {
namespace {

std::vector<std::byte> packed(const PackedShape& shape, const std::vector<std::byte>& rows) {
  std::vector<std::byte> out(static_cast<std::size_t>(shape.panels * shape.panel_bytes), std::byte{0xcd});
  for (std::int64_t p = 0; p < shape.panels; ++p) {
    const int count = static_cast<int>(std::min<std::int64_t>(panel_rows, shape.rows - p * panel_rows));
    pack_panel(shape, rows.data() + p * panel_rows * shape.row_bytes, count, out.data() + p * shape.panel_bytes);
  }
  return out;
}

TEST_CASE("packing is reversible for every type") {
  std::mt19937 random(1);
  for (WeightType type : weight_types) {
    const bool real = describe(type).block_size == 1;
    for (std::int64_t rows : {1, 15, 16, 17, 48}) {
      for (std::int64_t columns : {real ? 1 : 256, real ? 33 : 768}) {
        INFO(describe(type).name << " " << rows << " x " << columns);
        const std::vector<std::byte> from = random_rows(type, rows, columns, random);
        const PackedShape shape = packed_shape(type, rows, columns);
        REQUIRE(static_cast<std::size_t>(shape.row_bytes * rows) == from.size());
        const std::vector<std::byte> panels = packed(shape, from);
        std::vector<std::byte> back(from.size());
        for (std::int64_t r = 0; r < rows; ++r) {
          unpack_row_bytes(shape, panels.data() + r / panel_rows * shape.panel_bytes, static_cast<int>(r % panel_rows),
                           back.data() + r * shape.row_bytes);
        }
        REQUIRE(back == from);
      }
    }
  }
}

TEST_CASE("a packed matrix takes the bytes of its rows, the last panel and planes padded") {
  for (WeightType type : weight_types) {
    const PackedShape shape = packed_shape(type, 64, 1024);
    REQUIRE(shape.panels * shape.panel_bytes == 64 * shape.row_bytes);
  }
}

TEST_CASE("unpackers of every instruction set make the same slab") {
  std::mt19937 random(2);
  const Kernels portable = choose_kernels("portable"), best = choose_kernels("auto");
  for (WeightType type : weight_types) {
    INFO(describe(type).name << " " << best.name);
    const std::vector<std::byte> rows = random_rows(type, 13, 512, random);
    const PackedShape shape = packed_shape(type, 13, 512);
    const std::vector<std::byte> panels = packed(shape, rows);
    const std::size_t bytes = slab_bytes(slab_format(type).kind, 512);
    struct alignas(64) Line {
      std::byte bytes[64];
    };
    std::vector<Line> a(bytes / 64 + 1), b(bytes / 64 + 1);
    auto* const one = reinterpret_cast<std::byte*>(a.data());
    auto* const other = reinterpret_cast<std::byte*>(b.data());
    std::memset(one, 0, a.size() * 64);
    std::memset(other, 0, b.size() * 64);
    portable.unpack[static_cast<int>(type)](unpack_args(shape, panels.data(), 0, shape.blocks, one));
    best.unpack[static_cast<int>(type)](unpack_args(shape, panels.data(), 0, shape.blocks, other));
    REQUIRE(std::memcmp(one, other, bytes) == 0);
    // The second half alone.
    best.unpack[static_cast<int>(type)](unpack_args(shape, panels.data(), shape.blocks / 2, shape.blocks / 2, other));
    const SlabKind kind = slab_format(type).kind;
    const std::size_t half = kind == SlabKind::real ? 256 * panel_rows * sizeof(float) : slab_bytes(kind, 256);
    REQUIRE(std::memcmp(one + half, other, half) == 0);
  }
}

TEST_CASE("names of instruction sets") {
  REQUIRE(std::string_view(choose_kernels("portable").name) == "portable");
  try {
    choose_kernels("sse9");
    FAIL("an unknown name was taken");
  } catch (const Exception& e) {
    REQUIRE(e.error().code == ErrorCode::invalid_argument);
    REQUIRE(e.error().message.find("sse9") != std::string::npos);
  }
}

}  // namespace
}  // namespace llminfer::cpu::test
