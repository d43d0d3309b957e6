// Blocks of the file's formats as plain numbers, and back: what the repacking is done from.
#pragma once

#include <llminfer/weight_type.hpp>

#include <cstddef>

#include "host/fragment_scales.h"

namespace llminfer::cuda {

/// A block of 32 or 256 columns.
struct FileBlock {
  std::uint16_t levels[256] = {};  ///< without sign; Q8_0: plus 128; F16 and BF16: their bits
  std::uint8_t scales[16] = {};    ///< of groups; signed ones with their zero at 32 (Q3_K) or 128
  std::uint8_t minima[16] = {};
  std::uint16_t d = 0;  ///< MXFP4: the exponent
  std::uint16_t m = 0;  ///< the minimum, or dmin
};

struct FileFormat {
  WeightType type;
  int columns;  ///< of a block
  int block_bytes;
  LevelBits levels;
  ScaleBits scales;
  MinimumBits minima;
  int groups;  ///< of a block of 256 columns
  void (*read)(const std::byte*, FileBlock&) noexcept;
  void (*write)(const FileBlock&, std::byte*) noexcept;  ///< of a block whose bytes are zero
};

/// Null for types without fragments.
const FileFormat* find_file_format(WeightType type) noexcept;

}  // namespace llminfer::cuda
