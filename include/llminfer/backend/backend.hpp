// The interface that a device implements. Versioned, unstable until 1.0: a plug-in built for another version is
// refused.
//
// Nothing may throw across the interface: failures are Result or Status. Who calls what: a Model calls plan() and
// compile() at load; a Pool calls workspace() and make_kv() when it opens; the executor calls run() for each step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include <llminfer/backend/graph.hpp>
#include <llminfer/backend/step.hpp>
#include <llminfer/ceilings.hpp>
#include <llminfer/device_info.hpp>
#include <llminfer/error.hpp>
#include <llminfer/kv_type.hpp>
#include <llminfer/weight_cache.hpp>

namespace llminfer {
inline namespace v0 {
namespace backend {

/// Raised with every change of these headers that an old plug-in would not survive.
constexpr std::uint32_t interface_version = 4;

/// The largest step a caller will ask for. Fixed at compile.
struct Limits {
  std::int32_t tokens = 512;    ///< tokens in one step
  std::int32_t sequences = 32;  ///< sequences in one step
  std::int32_t outputs = 32;    ///< output rows in one step
};

/// Formats of the cache, resolved: never automatic.
struct KvFormat {
  KvType k = KvType::f16;
  KvType v = KvType::f16;
};

/// Bytes a device will take, known before anything is allocated.
struct MemoryNeeds {
  std::uint64_t weights = 0;                ///< once per compiled graph
  std::uint64_t workspace = 0;              ///< per Workspace
  std::vector<std::uint64_t> page_bytes{};  ///< per state group: one page, all its layers, K and V
};

/// What tells where weights come from, without reading them.
struct SourceIdentity {
  std::uint64_t hash = 0;  ///< of the files' devices, inodes, sizes and times as they are now; 0: not to be had
  bool settled = false;    ///< the last change is so long ago that a further one will show in the hash
};

/// Gives a device the bytes of the weights it asks for. (several threads)
class WeightReader {
 public:
  virtual ~WeightReader() = default;
  /// Reads rows [first_row, first_row + count) in the type that Graph::weights declares; row r of expert e has the
  /// index e * rows + r. `out` is exactly `count` rows long. Sync.
  virtual Result<void> read_rows(WeightId weight, std::int64_t first_row, std::int64_t count,
                                 std::span<std::byte> out) const = 0;
  /// Equal hashes: nobody wrote to what the weights come from. Sync. Optional.
  virtual Result<SourceIdentity> identity() const { return SourceIdentity{}; }
  /// A hash of all bytes that the weights come from: reads them. Sync. Optional: Error unavailable, and no cache.
  virtual Result<std::uint64_t> content_hash() const {
    return Error{ErrorCode::unavailable, "these weights have no hash", "WeightReader::content_hash", 0, 0};
  }
};

/// Pages of all state groups, in device memory. Calls are made by the owner of the pool, never during a run that uses
/// it.
class KvStorage {
 public:
  virtual ~KvStorage() = default;
  virtual std::uint64_t page_bytes(std::int32_t group) const noexcept = 0;
  /// Copies one page whole (copy-on-write). Sync.
  virtual Status copy_page(std::int32_t group, std::int32_t from, std::int32_t to) noexcept = 0;
  /// Page contents to or from host memory in this device's own layout, page_bytes(group) long (save, restore, swap).
  /// Sync.
  virtual Status read_page(std::int32_t group, std::int32_t page, std::span<std::byte> out) const noexcept = 0;
  virtual Status write_page(std::int32_t group, std::int32_t page, std::span<const std::byte> in) noexcept = 0;
  /// Name of the page layout, e.g. "cpu-1": saved pages load only into an equal one. Static string.
  virtual const char* layout() const noexcept = 0;
};

/// One caller's activations. Opaque to all but the device.
class Workspace {
 public:
  virtual ~Workspace() = default;
};

/// A compiled graph: immutable, holds the weights. (any thread) Runs on one device take turns.
class Program {
 public:
  virtual ~Program() = default;
  /// Memory for the activations of one caller. Allocates.
  virtual Result<std::unique_ptr<Workspace>> workspace() const = 0;
  /// Takes memory for `pages[g]` pages of each state group g, at once.
  virtual Result<std::unique_ptr<KvStorage>> make_kv(KvFormat format, std::span<const std::int32_t> pages) const = 0;
  /// One step. Sync: outputs are complete on return. Allocates nothing. A batch with anything out of bounds is refused
  /// as invalid_argument before anything runs. A failed or stopped step leaves the KV rows of
  /// its tokens undefined and nothing else; the caller runs those tokens again. `profile` may be null.
  virtual Status run(const StepBatch& batch, KvStorage& kv, Workspace& workspace, const StepOutputs& outputs,
                     const StopFlag& stop, ProfileSink* profile) const noexcept = 0;
  /// What became of CompileOptions::weight_cache. Optional.
  virtual WeightCache weight_cache() const noexcept { return WeightCache::unused; }
};

struct CompileOptions {
  Limits limits{};
  std::function<void(double)> progress{};  ///< share done, 0 to 1; called on the calling thread; may be empty
  std::stop_token stop{};                  ///< compile returns Error cancelled soon after a request
  std::filesystem::path weight_cache{};    ///< a file where the device may keep the weights in its own layout, to find
                                           ///< them there at the next start; empty: none. See LoadOptions
};

/// A device. (any thread)
class Backend {
 public:
  virtual ~Backend() = default;
  virtual DeviceInfo info() const = 0;
  /// Bytes that compile, workspace and make_kv will take, within 2 %. Allocates nothing on the device.
  virtual Result<MemoryNeeds> plan(const Graph& graph, const Limits& limits, KvFormat format) const = 0;
  /// Packs the weights and places the activations. Ops, types or shapes that it cannot do: Error unsupported_type.
  virtual Result<std::shared_ptr<const Program>> compile(std::shared_ptr<const Graph> graph,
                                                         const WeightReader& weights,
                                                         const CompileOptions& options) const = 0;
  /// Bytes that everything of this device holds now. For tests and reports.
  virtual std::uint64_t memory_used() const noexcept = 0;
  /// Measures what the hardware could do, in about so many seconds; fills Ceilings::at, threads and busy, nothing else.
  /// Called by measure_ceilings(). Sync. Optional: Error unavailable where there is nothing to measure.
  virtual Result<Ceilings> ceilings(double seconds) const {
    static_cast<void>(seconds);
    return Error{ErrorCode::unavailable, "this device measures no ceilings", "Backend::ceilings", 0, 0};
  }
};

/// What a plug-in's entry point returns. `name` is the device's kind.
struct Plugin {
  std::uint32_t version = interface_version;
  const char* name = "";
  Result<std::shared_ptr<Backend>> (*open)(int index) = nullptr;
};

}  // namespace backend
}  // namespace v0
}  // namespace llminfer

extern "C" {
/// Every plug-in exports one function of this type under the name llminfer_backend_plugin.
using LlminferBackendPlugin = const llminfer::backend::Plugin*();
}
