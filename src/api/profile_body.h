// The state behind a Profile.
#pragma once

#include <atomic>
#include <llminfer/profile.hpp>
#include <memory>

#include "api/model_body.h"
#include "profile/analysis.h"
#include "profile/recorder.h"

namespace llminfer {
inline namespace v0 {

class Profile::Body {
 public:
  Body(std::shared_ptr<const Model::Body> model_in, const ProfileOptions& options);

  const std::shared_ptr<const Model::Body> model;
  profile::Subject subject;
  profile::Recorder recorder;
  std::atomic<std::uint64_t> kv_bytes{0};  ///< of the pool it is attached to
  std::atomic<bool> attached{false};
};

}  // namespace v0

namespace api {

/// A profile's attachment to one engine, given up with it.
class ProfileUse {
 public:
  ProfileUse() noexcept = default;
  /// Throws invalid_argument for a profile that is in use, mismatch for one of another model. Empty: nothing.
  ProfileUse(const Profile& profile, const Model::Body& model, std::uint64_t kv_bytes);
  ProfileUse(ProfileUse&&) noexcept = default;
  ProfileUse& operator=(ProfileUse&&) = delete;
  ~ProfileUse();

  /// Null for an empty profile.
  std::shared_ptr<profile::Recorder> recorder() const noexcept {
    return body_ != nullptr ? std::shared_ptr<profile::Recorder>(body_, &body_->recorder) : nullptr;
  }

 private:
  std::shared_ptr<Profile::Body> body_;
};

}  // namespace api
}  // namespace llminfer
