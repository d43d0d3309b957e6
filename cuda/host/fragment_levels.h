// Where the bits of a level lie in a chunk of 64 rows and 64 columns.
//
// A lane finds the bits of two levels, one in each half of a word, at the same place of the halves: one mask cuts both
// out, and what is left is the pair of halves level * 2^(place - 24), as a half whose exponent is zero is linear in its
// bits. So rows g and g + 8 may have different places: their sums are put right at the end.
//   four:  a word a step; register r's first element is nibble r, its second nibble r + 4. After `>> 8` registers 2 and
//   3
//          are where 0 and 1 were. Rows g are at place 0, rows g + 8 at place 4.
//   table: a word a step; nibble 2 r + e has element e of register r: what it chooses is looked up four at a time.
//   five:  as four; a plane of a word for 64 columns has the fifth bits: for step s those of registers 0 and 1 lie
//   where
//          they belong after a turn by s, those of 2 and 3 after one by s + 8.
//   six:   as four; two words for 64 columns have the two upper bits of two steps each: turned by 2 (s % 2), then by 8
//          more.
//   eight: bytes 2 r and 2 r + 1 of the two words of a step are register r's pair.
//   two:   a word for two steps: of the even one rows g are at place 6 and rows g + 8 at 4, of the odd one at 2 and 0,
//   so
//          that an odd step counts sixteen times less.
//   three: three words a tile. Step s < 3 has word s: rows g are at place 0, rows g + 8 at 3; after `>> 9` registers 2
//   and 3 are where 0 and 1 were. Step 3 is at place 6: of word r for registers r < 3, and register 3 has the bits that
//   words 0, 1 and 2 have over, at place 15. sixteen: halves as they are.
#pragma once

#include "host/fragment_place.h"

namespace llminfer::cuda {

enum class LevelBits : std::uint8_t { four, table, five, six, eight, two, three, sixteen };

/// Bytes of the levels of a chunk with their upper bits: 512 for each bit.
constexpr int level_bytes(LevelBits bits) noexcept {
  switch (bits) {
    case LevelBits::two:
      return 1024;
    case LevelBits::three:
      return 1536;
    case LevelBits::four:
    case LevelBits::table:
      return 2048;
    case LevelBits::five:
      return 2560;
    case LevelBits::six:
      return 3072;
    case LevelBits::eight:
      return 4096;
    case LevelBits::sixteen:
      break;
  }
  return 8192;
}

/// A run of bits in a chunk.
struct BitRun {
  std::int16_t byte = 0;
  std::int8_t bit = 0;  ///< of the byte
  std::int8_t count = 0;
};

/// Runs from the lowest bits of a level on; behind the last one their count is 0.
struct BitPlace {
  BitRun runs[3]{};
};
template <class... Run>
constexpr BitPlace place_in(Run... runs) noexcept {
  return {{runs...}};
}

/// A run may reach into a second byte.
constexpr BitRun run_at(int byte, int bit, int count) noexcept {
  return {static_cast<std::int16_t>(byte + bit / 8), static_cast<std::int8_t>(bit % 8),
          static_cast<std::int8_t>(count)};
}

/// Of row 0 .. 63 and column 0 .. 63 of a chunk.
constexpr BitPlace level_place(LevelBits bits, int row, int column) noexcept {
  const int tile = row / 16;
  const FragmentPlace p = place_of(row % 16, column);
  const int half = 16 * p.element, nibble = 4 * p.reg + half;
  const int word = tile * 512 + p.lane * 16 + p.step * 4, plane = p.lane * 16 + tile * 4;
  const int pair = tile / 2 * 512 + p.lane * 16 + tile % 2 * 8 + p.step / 2 * 4;
  const int odd = p.step % 2, upper_rows = p.reg % 2, later = p.reg / 2 * 8;
  switch (bits) {
    case LevelBits::four:
      return place_in(run_at(word, nibble, 4));
    case LevelBits::table:
      return place_in(run_at(word, 8 * p.reg + 4 * p.element, 4));
    case LevelBits::five:
      return place_in(run_at(word, nibble, 4), run_at(2048 + plane, (4 + 4 * p.reg + p.step + half) % 32, 1));
    case LevelBits::six:
      return place_in(run_at(word, nibble, 4),
                      run_at(2048 + p.step / 2 * 512 + plane, (4 + 4 * p.reg + 2 * odd + half) % 32, 2));
    case LevelBits::eight:
      return place_in(run_at(p.step / 2 * 2048 + tile * 512 + p.lane * 16 + odd * 8 + p.reg * 2 + p.element, 0, 8));
    case LevelBits::two:
      return place_in(run_at(pair, 6 - 4 * odd - 2 * upper_rows + later + half, 2));
    case LevelBits::three: {
      const auto word_at = [&](int n) { return (3 * tile + n) / 4 * 512 + p.lane * 16 + (3 * tile + n) % 4 * 4; };
      if (p.step < 3) return place_in(run_at(word_at(p.step), 3 * upper_rows + 9 * (p.reg / 2) + half, 3));
      if (p.reg < 3) return place_in(run_at(word_at(p.reg), 6 + half, 3));
      return place_in(run_at(word_at(0), 15 + half, 1), run_at(word_at(1), 15 + half, 1),
                      run_at(word_at(2), 15 + half, 1));
    }
    case LevelBits::sixteen:
      break;
  }
  return place_in(run_at(p.step * 2048 + tile * 512 + p.lane * 16 + p.reg * 4 + p.element * 2, 0, 16));
}

}  // namespace llminfer::cuda
