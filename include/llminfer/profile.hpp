// Records where the time goes while a Session or a Batcher works, and reports it.
#pragma once

#include <memory>
#include <vector>

#include <llminfer/ceilings.hpp>
#include <llminfer/device_description.hpp>
#include <llminfer/error.hpp>
#include <llminfer/export.hpp>
#include <llminfer/profile_report.hpp>

namespace llminfer {
inline namespace v0 {

class Model;

struct ProfileOptions {
  Ceilings ceilings{};  ///< of the model's device; nothing measured: Error. With efficiencies of the model's weight
                        ///< types (see CeilingsOptions::calibrate) forecasts and verdicts are sharper
  std::vector<DeviceDescription> devices{};  ///< what else advice may name
};

/// A recording. Give it to one Session (SessionOptions::profile) or one Batcher (BatcherOptions::profile) when that is
/// opened; it costs one clock reading an op or so, and steps allocate nothing. Copies share the recording. (any thread)
class LLMINFER_API Profile {
 public:
  /// Empty: records nothing.
  Profile() noexcept = default;

  /// Errors: invalid_argument (ceilings without a measurement, or of other threads than the model's device has).
  static Result<Profile> open(const Model& model, ProfileOptions options);

  /// What was recorded since open() or reset(). A step that runs counts from its end on. Error invalid_argument if
  /// empty.
  Result<ProfileReport> report() const;
  /// Forgets what was recorded.
  Result<void> reset();

  bool empty() const noexcept { return body_ == nullptr; }

  class Body;
  /// For the library's own use.
  const std::shared_ptr<Body>& body() const noexcept { return body_; }

 private:
  explicit Profile(std::shared_ptr<Body> body) noexcept;
  std::shared_ptr<Body> body_;
};

}  // namespace v0
}  // namespace llminfer
