// Several lists one behind the other as one, of which threads take parts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "core/thread_pool.h"
#include "device/cpu/schedule.h"

namespace llminfer::cpu {

/// Of `lists` lists, length_of(i) each.
template <class Length>
std::int64_t length_of_all(std::int64_t lists, Length&& length_of) noexcept {
  std::int64_t total = 0;
  for (std::int64_t i = 0; i < lists; ++i) total += length_of(i);
  return total;
}

/// Calls visit(i, first, last), i rising, for what a part of the whole has of list i: [first, last), not empty.
template <class Length, class Visit>
void each_list(std::int64_t lists, Length&& length_of, const core::Share& part, Visit&& visit) noexcept {
  std::int64_t before = 0;
  for (std::int64_t i = 0; i < lists; before += length_of(i), ++i) {
    const std::int64_t first = std::max<std::int64_t>(part.begin - before, 0);
    const std::int64_t last = std::min<std::int64_t>(part.end - before, length_of(i));
    if (first < last) visit(i, first, last);
  }
}

/// The panels of a phase that is cut into heads: of each group the parts one behind the other.
struct HeadLists {
  std::span<const ProductPart> parts;
  std::int32_t groups;

  std::int64_t count() const noexcept { return groups * static_cast<std::int64_t>(parts.size()); }
  const ProductPart& part(std::int64_t i) const noexcept { return parts[static_cast<std::size_t>(i) % parts.size()]; }
  /// Of list i, from the part's first panel on.
  std::int64_t first_panel(std::int64_t i) const noexcept {
    return i / static_cast<std::int64_t>(parts.size()) * part(i).panels;
  }
};

}  // namespace llminfer::cpu
