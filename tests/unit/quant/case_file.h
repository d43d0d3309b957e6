// Cases for the scalar truth, as written by compare_with_gguf.py: a sequence of records
//   "unpack NAME N\n"  row_bytes(NAME, N) bytes of blocks, N float32: what they mean
//   "pack NAME N\n"    N float32, row_bytes(NAME, N) bytes of blocks: what they round to
// with NAME as in WeightTypeInfo::name and everything little endian.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "quant/type_table.h"

namespace quant_test {

namespace quant = llminfer::quant;

struct Case {
  bool packs = false;  // else unpacks
  const quant::QuantType* type = nullptr;
  std::vector<std::byte> blocks;
  std::vector<float> floats;
};

template <class T>
void read_vector(std::istream& in, std::vector<T>& out) {
  const auto bytes = static_cast<std::streamsize>(out.size() * sizeof(T));
  in.read(reinterpret_cast<char*>(out.data()), bytes);
  if (in.gcount() != bytes) throw std::runtime_error("case file ends inside a record");
}

/// The next record; nothing at the end of the file. Throws std::runtime_error on a record that it can't read.
inline std::optional<Case> read_case(std::istream& in) {
  std::string verb, name;
  std::size_t n = 0;
  if (!(in >> verb)) return std::nullopt;
  if (!(in >> name >> n) || in.get() != '\n') throw std::runtime_error("bad record header after '" + verb + "'");
  Case record;
  record.packs = verb == "pack";
  if (!record.packs && verb != "unpack") throw std::runtime_error("unknown record '" + verb + "'");
  for (const auto& type : quant::all_types()) {
    if (type.info.name == name) record.type = &type;
  }
  if (record.type == nullptr) throw std::runtime_error("unknown type '" + name + "'");
  record.blocks.resize(quant::row_bytes(record.type->info.type, n));
  record.floats.resize(n);
  if (record.packs) {
    read_vector(in, record.floats);
    read_vector(in, record.blocks);
  } else {
    read_vector(in, record.blocks);
    read_vector(in, record.floats);
  }
  return record;
}

/// Same bits; any NaN equals any NaN.
inline bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

/// Runs the case: the index of the first weight (unpack) or byte (pack) that differs, nothing if all agree.
inline std::optional<std::size_t> first_difference(const Case& record) {
  if (record.packs) {
    std::vector<std::byte> blocks(record.blocks.size());
    record.type->pack_row(record.floats.data(), blocks.data(), record.floats.size());
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i] != record.blocks[i]) return i;
    }
    return std::nullopt;
  }
  std::vector<float> floats(record.floats.size());
  record.type->unpack_row(record.blocks.data(), floats.data(), floats.size());
  for (std::size_t i = 0; i < floats.size(); ++i) {
    if (!same(floats[i], record.floats[i])) return i;
  }
  return std::nullopt;
}

}  // namespace quant_test
