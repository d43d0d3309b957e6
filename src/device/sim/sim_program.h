// A compiled graph of the simulated device: the cost of its steps and the choice of tokens.
#pragma once

#include <llminfer/backend/backend.hpp>
#include <memory>
#include <mutex>

#include "core/clock.h"
#include "device/sim/roofline.h"

namespace llminfer::device::sim {

/// What programs of one device share.
struct SimDevice {
  DeviceDescription description{};
  std::uint64_t seed = 0;
  std::shared_ptr<core::ManualClock> clock{};
  std::mutex turn{};  ///< steps run one after the other, in virtual time too
};

/// Bytes of one page of a group.
std::uint64_t page_bytes(const backend::StateGroup& group, backend::KvFormat format, std::int32_t page_size);

class SimProgram final : public backend::Program {
 public:
  SimProgram(std::shared_ptr<SimDevice> device, std::shared_ptr<const backend::Graph> graph, backend::Limits limits);

  Result<std::unique_ptr<backend::Workspace>> workspace() const override;
  Result<std::unique_ptr<backend::KvStorage>> make_kv(backend::KvFormat format,
                                                      std::span<const std::int32_t> pages) const override;
  backend::Status run(const backend::StepBatch& batch, backend::KvStorage& kv, backend::Workspace& workspace,
                      const backend::StepOutputs& outputs, const backend::StopFlag& stop,
                      backend::ProfileSink* profile) const noexcept override;

 private:
  void choose(const backend::StepBatch& batch, std::size_t row, std::span<float> scratch,
              const backend::StepOutputs& outputs) const noexcept;

  std::shared_ptr<SimDevice> device_;
  std::shared_ptr<const backend::Graph> graph_;
  backend::Limits limits_;
};

}  // namespace llminfer::device::sim
