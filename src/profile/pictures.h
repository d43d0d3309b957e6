// The four pictures of a report.
#pragma once

#include <llminfer/profile_report.hpp>
#include <string>

namespace llminfer::profile {

/// Operations a second over operations a byte, both axes logarithmic: the roofs, and a mark for each kind of op and
/// phase, its area by time.
std::string roofline_picture(const ProfileReport& report);
/// For each phase a bar: its time by kind of op, and the rest.
std::string time_picture(const ProfileReport& report);
/// Weights by type, activations, cache used and free.
std::string memory_picture(const ProfileReport& report);
/// Forecast tokens per second over the size of the batch, and the knee.
std::string batch_picture(const ProfileReport& report);

}  // namespace llminfer::profile
