// What a device can do, as numbers with their sources: for simulating and planning on devices that are not here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <llminfer/error.hpp>
#include <llminfer/export.hpp>
#include <llminfer/kv_type.hpp>

namespace llminfer {
inline namespace v0 {

/// A number and where it comes from: a datasheet, a measurement, or an assumption that says so.
struct Figure {
  double value = 0;
  std::string source{};
};

/// The arithmetic that a kernel runs in.
enum class MultiplyAdd : std::uint8_t {
  f32,   ///< vector units
  f16,   ///< f16 or bf16, sums in f32
  int8,  ///< sums in int32
};

/// "f32", "f16" or "int8". Never null.
LLMINFER_API const char* to_string(MultiplyAdd kind) noexcept;

/// One device, or several equal ones that serve one queue. All figures are of one of them.
struct DeviceDescription {
  std::string name{};
  int replicas = 1;                           ///< independent copies, each with the whole model; 1 .. 1024
  int page_size = 32;                         ///< tokens of one KV page; 8, 16, 32, 64 or 128
  KvType default_kv = KvType::f16;            ///< what KvType::automatic means here
  MultiplyAdd quantized = MultiplyAdd::int8;  ///< what products of quantized weights run in
  MultiplyAdd half = MultiplyAdd::f16;        ///< what products of f16 and bf16 weights run in
  MultiplyAdd attention = MultiplyAdd::f32;   ///< what scores and their sums over values run in

  Figure memory{};           ///< bytes for weights, activations and cache
  Figure bandwidth{};        ///< bytes read from this memory in a second, at best
  Figure cache{};            ///< bytes of the last-level cache: activations that fit into it need not go to memory
  Figure f32{};              ///< operations in a second at best; a multiplication and an addition are two
  Figure f16{};              ///< the same, without structured sparsity
  Figure int8{};             ///< the same
  Figure bandwidth_share{};  ///< of `bandwidth` that good kernels reach; 0 < share <= 1
  Figure compute_share{};    ///< of the peak rates that good kernels reach on large products; 0 < share <= 1
  Figure group_overhead{};   ///< seconds around each group of ops (a launch, a barrier); a layer has four groups
  Figure step_overhead{};    ///< seconds around each step: the host's part, starting and waiting
  Figure link{};  ///< bytes a second to and from the host's memory, for pages swapped out; 0: the same memory

  /// Peak rate of a kind, operations in a second.
  const Figure& rate(MultiplyAdd kind) const noexcept {
    return kind == MultiplyAdd::int8 ? int8 : kind == MultiplyAdd::f16 ? f16 : f32;
  }

  /// Reads a description from JSON text, the format of the files in share/llminfer/devices:
  ///
  ///   {"format": 1, "name": "...", "replicas": 1, "page_size": 16, "default_kv": "f16", "quantized": "f16",
  ///    "half": "f16", "attention": "f16", "figures": {"memory": {"value": 141e9, "source": "..."}, ...}}
  ///
  /// All keys are required but replicas, and "comment" (any string) may stand beside them. Error invalid_argument names
  /// the field and its value: no valid JSON, a key that is unknown, absent or there twice, a number that is not finite
  /// or out of range, an empty source, text over 64 KiB.
  static LLMINFER_API Result<DeviceDescription> parse(std::string_view json);

  /// Reads a file; errors also not_found and unavailable.
  static LLMINFER_API Result<DeviceDescription> file(const std::filesystem::path& path);
};

}  // namespace v0
}  // namespace llminfer
