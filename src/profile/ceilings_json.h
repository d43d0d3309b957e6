// Ceilings as the versioned JSON of the cache file.
#pragma once

#include <llminfer/ceilings.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace llminfer::profile {

/// What the file's version member says. Raised when an older reader would misunderstand.
constexpr int ceilings_version = 2;

/// The version of this library, as Ceilings::library has it.
const char* library_version() noexcept;

std::string to_json(const Ceilings& ceilings);

/// Nothing where the text is no such file, of another version, or has numbers that make no sense. Throws bad_alloc
/// only.
std::optional<Ceilings> ceilings_from_json(std::string_view text);

}  // namespace llminfer::profile
