// From recorded totals to a report: sums, verdicts, advice.
#pragma once

#include <llminfer/device_description.hpp>
#include <llminfer/profile_report.hpp>

#include "profile/recorder.h"

namespace llminfer::profile {

/// What a report needs beside the totals.
struct Subject {
  std::string model{};
  std::string device{};
  int threads = 1;
  int cores = 1;  ///< that the process may use
  std::uint64_t activations = 0;
  std::uint64_t kv_bytes = 0;  ///< of the pool
  Ceilings ceilings{};
  std::vector<DeviceDescription> others{};  ///< devices that advice may name
};

ProfileReport report_of(const Totals& totals, const Recorder& recorder, const Subject& subject);

/// Sets bound and evidence. `phase` is complete otherwise.
void judge(PhaseReport& phase, const PhaseTotals& totals, const Recorder& recorder, const Subject& subject);

/// Moves that would help by 5 % or more, greatest gain first; and the curve over batch sizes with its knee.
void advise(ProfileReport& report, const Recorder& recorder, const Subject& subject);

}  // namespace llminfer::profile
