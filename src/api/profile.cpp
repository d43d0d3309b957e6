#include <llminfer/profile.hpp>

#include "api/guard.h"
#include "api/profile_body.h"
#include "core/cpu_info.h"
#include "core/fail.h"

namespace llminfer {
inline namespace v0 {
namespace {

profile::Subject subject_of(const Model::Body& model, const ProfileOptions& options) {
  const DeviceInfo device = model.device.backend()->info();
  profile::Subject out;
  out.model = model.info.name.empty() ? model.info.architecture : model.info.name;
  out.device =
      fmt::format("{} ({}, {} thread{})", device.name, device.isa, device.threads, device.threads == 1 ? "" : "s");
  out.threads = device.threads;
  out.cores = device.kind == "cpu" ? core::detect_cpu().cores.usable : device.threads;
  out.activations = model.info.memory.activations;
  out.ceilings = options.ceilings;
  out.others = options.devices;
  return out;
}

}  // namespace

Profile::Body::Body(std::shared_ptr<const Model::Body> model_in, const ProfileOptions& options)
    : model(std::move(model_in)),
      subject(subject_of(*model, options)),
      recorder(model->graph, model->format, profile::CostModel(options.ceilings, subject.threads),
               model->limits.sequences) {}

Profile::Profile(std::shared_ptr<Body> body) noexcept : body_(std::move(body)) {}

Result<Profile> Profile::open(const Model& model, ProfileOptions options) {
  return api::guard("Profile::open", [&] {
    const Ceilings& c = options.ceilings;
    const int threads = model.body()->device.backend()->info().threads;
    if (c.at.empty()) core::fail(ErrorCode::invalid_argument, "ProfileOptions::ceilings has no measurement");
    if (c.threads != threads) {
      core::fail(ErrorCode::invalid_argument, "ProfileOptions::ceilings is of {} threads, the device has {}", c.threads,
                 threads);
    }
    return Profile(std::make_shared<Body>(model.body(), options));
  });
}

Result<ProfileReport> Profile::report() const {
  return api::guard("Profile::report", [&] {
    if (body_ == nullptr) core::fail(ErrorCode::invalid_argument, "the profile is empty");
    profile::Subject subject = body_->subject;
    subject.kv_bytes = body_->kv_bytes.load(std::memory_order_relaxed);
    return profile::report_of(body_->recorder.totals(), body_->recorder, subject);
  });
}

Result<void> Profile::reset() {
  return api::guard("Profile::reset", [&] {
    if (body_ == nullptr) core::fail(ErrorCode::invalid_argument, "the profile is empty");
    body_->recorder.reset();
  });
}

}  // namespace v0

namespace api {

ProfileUse::ProfileUse(const Profile& profile, const Model::Body& model, std::uint64_t kv_bytes) {
  if (profile.empty()) return;
  Profile::Body& body = *profile.body();
  if (body.model.get() != &model) core::fail(ErrorCode::mismatch, "the profile was opened for another model");
  if (body.attached.exchange(true)) {
    core::fail(ErrorCode::invalid_argument, "the profile is in use by another session or batcher");
  }
  body_ = profile.body();
  body_->kv_bytes.store(kv_bytes, std::memory_order_relaxed);
}

ProfileUse::~ProfileUse() {
  if (body_ != nullptr) body_->attached.store(false);
}

}  // namespace api
}  // namespace llminfer
