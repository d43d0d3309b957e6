// The entry point by which an application finds the device.
#include "naive_backend.hpp"

namespace {

using llminfer::backend::Plugin;

llminfer::Result<std::shared_ptr<llminfer::backend::Backend>> open_device(int index) {
  if (index != 0) return llminfer::Error{llminfer::ErrorCode::not_found, "there is one device, 0", "naive open"};
  try {
    return naive::make_backend();
  } catch (const std::bad_alloc&) {
    return llminfer::Error{llminfer::ErrorCode::out_of_memory, "device", "naive open"};
  }
}

const Plugin plugin{llminfer::backend::interface_version, "naive", &open_device};

}  // namespace

extern "C" __attribute__((visibility("default"))) const Plugin* llminfer_backend_plugin() { return &plugin; }
