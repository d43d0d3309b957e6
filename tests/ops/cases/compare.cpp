#include "compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace llminfer::op_cases {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

void report(Difference& difference, std::size_t step, const char* what, std::size_t index, double device,
            double reference) {
  difference.error = infinite;
  if (!difference.message.empty()) return;
  difference.message = "step " + std::to_string(step) + ", " + what + " " + std::to_string(index) + ": " +
                       std::to_string(device) + ", the reference has " + std::to_string(reference);
}

/// Values that are not finite must be the same kind on both sides.
bool same_special(double a, double b) { return (std::isnan(a) && std::isnan(b)) || a == b; }

double root_mean_square(const float* values, std::size_t count) {
  double sum = 0;
  std::size_t finite = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!std::isfinite(values[i])) continue;
    sum += static_cast<double>(values[i]) * values[i];
    ++finite;
  }
  return finite == 0 ? 0 : std::sqrt(sum / static_cast<double>(finite));
}

void compare_rows(std::size_t step, const char* what, const std::vector<float>& device,
                  const std::vector<float>& reference, std::size_t width, double magnitude, Difference& difference) {
  for (std::size_t row = 0; row * width < reference.size(); ++row) {
    const std::size_t first = row * width;
    const double size = std::max(magnitude, root_mean_square(reference.data() + first, width));
    for (std::size_t i = first; i < first + width; ++i) {
      if (!std::isfinite(device[i]) || !std::isfinite(reference[i])) {
        if (!same_special(device[i], reference[i])) report(difference, step, what, i, device[i], reference[i]);
        continue;
      }
      const double distance = std::fabs(static_cast<double>(device[i]) - reference[i]);
      if (distance == 0) continue;
      if (size == 0) report(difference, step, what, i, device[i], reference[i]);
      difference.error = std::max(difference.error, distance / size);
    }
  }
}

}  // namespace

void compare(const OpCase& op_case, std::size_t number, const StepResult& device, const StepResult& reference,
             Difference& difference) {
  for (std::size_t i = 0; i < reference.ids.size(); ++i) {
    if (device.ids[i] != reference.ids[i]) report(difference, number, "id", i, device.ids[i], reference.ids[i]);
  }
  const std::size_t rows = op_case.steps[number].output_rows.size();
  const std::size_t width = rows == 0 ? 1 : std::max<std::size_t>(1, reference.values.size() / rows);
  for (std::size_t i = 0; i < reference.values.size(); ++i) {
    const bool id = i % width < static_cast<std::size_t>(op_case.exact_ids);
    if (id && device.values[i] != reference.values[i]) {
      report(difference, number, "expert", i, device.values[i], reference.values[i]);
    }
  }
  compare_rows(number, "value", device.values, reference.values, width, op_case.magnitude, difference);
  const std::size_t k = rows == 0 ? 1 : std::max<std::size_t>(1, reference.scores.size() / rows);
  compare_rows(number, "score", device.scores, reference.scores, k, 1.0, difference);
  compare_rows(number, "log-sum-exp", device.log_sum_exp, reference.log_sum_exp, 1, 1.0, difference);
}

}  // namespace llminfer::op_cases
