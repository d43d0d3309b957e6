// A plug-in with a device that does nothing, of the interface version PLUGIN_VERSION; without one no plug-in at all.
#include <llminfer/backend/backend.hpp>

namespace {

using namespace llminfer;  // NOLINT(google-build-using-namespace): a test

class Nothing final : public backend::Backend {
 public:
  DeviceInfo info() const override {
    DeviceInfo info;
    info.kind = "nothing";
    return info;
  }
  Result<backend::MemoryNeeds> plan(const backend::Graph&, const backend::Limits&, backend::KvFormat) const override {
    return Error{ErrorCode::unsupported_type, "nothing", "plan"};
  }
  Result<std::shared_ptr<const backend::Program>> compile(std::shared_ptr<const backend::Graph>,
                                                          const backend::WeightReader&,
                                                          const backend::CompileOptions&) const override {
    return Error{ErrorCode::unsupported_type, "nothing", "compile"};
  }
  std::uint64_t memory_used() const noexcept override { return 0; }
};

Result<std::shared_ptr<backend::Backend>> open_device(int index) {
  if (index == 1) return std::shared_ptr<backend::Backend>();
  if (index != 0) return Error{ErrorCode::not_found, "there is one device", "open"};
  return std::shared_ptr<backend::Backend>(std::make_shared<Nothing>());
}

}  // namespace

#ifdef PLUGIN_VERSION
namespace {
const backend::Plugin plugin{PLUGIN_VERSION, "nothing", &open_device};
}  // namespace

extern "C" __attribute__((visibility("default"))) const backend::Plugin* llminfer_backend_plugin() { return &plugin; }
#else
extern "C" __attribute__((visibility("default"))) int something_else() { return open_device(0) ? 0 : 1; }
#endif
