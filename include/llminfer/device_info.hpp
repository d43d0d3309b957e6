// What a device says of itself.
#pragma once

#include <cstdint>
#include <string>

#include <llminfer/kv_type.hpp>

namespace llminfer {
inline namespace v0 {

struct DeviceInfo {
  std::string kind{};               ///< "reference", "cpu", "cuda", or a third party's name
  std::string name{};               ///< the hardware as it calls itself, e.g. the processor's model name
  std::string isa{};                ///< the kernels that run, e.g. "avx2", "avx512bf16", "amx", "portable"
  int threads = 1;                  ///< threads that compute
  std::uint64_t memory = 0;         ///< bytes the device may use; 0 when unknown
  std::uint64_t free_memory = 0;    ///< bytes it could still give when asked; 0 when unknown
  int page_size = 32;               ///< tokens of one KV page
  KvType default_kv = KvType::f16;  ///< what KvType::automatic means here
  std::string notes{};              ///< what else computes, or why it does not, e.g. "cuBLAS 13.1.0"; as of now: a
                                    ///< library may be opened when a model that needs it is loaded
};

}  // namespace v0
}  // namespace llminfer
