// A model: weights packed for a device, a tokenizer, and what the file says of both.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <llminfer/device.hpp>
#include <llminfer/error.hpp>
#include <llminfer/export.hpp>
#include <llminfer/kv_type.hpp>
#include <llminfer/model_source.hpp>
#include <llminfer/profile.hpp>
#include <llminfer/sampling.hpp>
#include <llminfer/tokenizer.hpp>
#include <llminfer/weight_cache.hpp>
#include <llminfer/weight_type.hpp>

namespace llminfer {
inline namespace v0 {

struct LoadOptions {
  std::vector<Device> devices{};  ///< empty: Device::cpu(). More than one: Error for now
  int context = 0;                ///< most tokens of one sequence; 0: what the model was trained for
  int max_step_tokens = 512;  ///< most tokens computed at once: the chunk of a prefill, and the size of the activations
  int max_sequences = 32;     ///< most sequences computed at once, and most rows of logits
  KvType k = KvType::automatic;                    ///< format of cached keys; automatic: the device's default
  KvType v = KvType::automatic;                    ///< format of cached values
  WeightType weight_type = WeightType::as_stored;  ///< matrices are converted to it while they load: f32, f16, bf16,
                                                   ///< q8_0, q5_1, q5_0, q4_1 or q4_0
  bool map_file = false;  ///< map the file instead of reading it. A mapped file that somebody shortens while it loads
                          ///< kills the process (SIGBUS): only for files that nobody else writes
  /// A file where the cpu device keeps the weights as it packed them (as many bytes as MemoryPlan::weights, about), so
  /// that the next start maps it instead of packing again, and processes share its pages; these do not count in
  /// Device::memory_used(). Empty: none. It serves every instruction set; it is written if it is absent, damaged, or
  /// made of another model, another weight_type or by another version, and replaced at once, so that any number of
  /// processes may load with it at a time. ModelInfo::weight_cache says what happened; a cache that cannot be written
  /// is no error. Error invalid_argument: the path names something that is no such cache; it stays as it is. As with
  /// map_file, somebody who shortens the file while it is in use kills the process: only for a folder that nobody else
  /// writes to.
  std::filesystem::path weight_cache{};
  std::function<void(double)> progress{};  ///< share of the weights loaded, 0 .. 1; called on the loading thread
};

struct SessionOptions {
  int context = 0;           ///< most tokens of the session; 0: the model's context
  std::size_t kv_bytes = 0;  ///< budget for cached keys and values; 0: just enough for one sequence of `context`
                             ///< tokens. More makes room for forks
  Profile profile{};         ///< records this session's work, but not that of its forks; empty: none
  double kv_share = 0;       ///< instead of kv_bytes: this share of DeviceInfo::free_memory, above 0 to 1. Taken once
};

/// Bytes, known before anything is allocated. What is then taken agrees within 2 %.
struct MemoryPlan {
  std::uint64_t weights = 0;       ///< once per Model
  std::uint64_t activations = 0;   ///< once per Session and its forks
  std::uint64_t kv_per_token = 0;  ///< of one sequence, all layers
  std::uint64_t kv = 0;            ///< per Session and its forks
  std::uint64_t total() const noexcept { return weights + activations + kv; }
};

struct ModelInfo {
  std::string architecture{};
  std::string name{};            ///< as the file names the model; may be empty
  std::uint64_t parameters = 0;  ///< weights in all tensors
  std::uint64_t file_bytes = 0;  ///< of all tensors as stored
  int context = 0;               ///< most tokens of one sequence, as loaded
  int trained_context = 0;       ///< as the file says
  int vocabulary = 0;
  int layers = 0;
  int width = 0;                                                     ///< of the residual stream
  int heads = 0;                                                     ///< of the first layer
  int heads_kv = 0;                                                  ///< of the first layer
  KvType k = KvType::f16;                                            ///< in use
  KvType v = KvType::f16;                                            ///< in use
  std::vector<std::pair<WeightType, std::uint64_t>> weight_types{};  ///< bytes of each type in use, most bytes first
  std::string chat_template{};                     ///< source of the default template; empty: the file has none
  SamplingOptions sampling{};                      ///< what the file recommends; used only if passed to generate()
  std::vector<Token> stop_tokens{};                ///< tokens that end a generation
  MemoryPlan memory{};                             ///< for a Session with default options
  WeightCache weight_cache = WeightCache::unused;  ///< what became of LoadOptions::weight_cache
};

/// A tensor of a model file.
struct TensorSummary {
  std::string name{};
  WeightType type = WeightType::f32;
  std::vector<std::uint64_t> shape{};  ///< innermost (contiguous) dimension first
  std::uint64_t bytes = 0;
};

/// One key of a model file, made readable.
struct MetadataSummary {
  std::string key{};
  std::string type{};
  std::string value{};  ///< one line of UTF-8; long values are cut
};

/// Everything a file says, without its weights.
struct FileSummary {
  std::string architecture{};
  std::vector<MetadataSummary> metadata{};
  std::vector<TensorSummary> tensors{};
  std::uint64_t tensor_bytes = 0;
};

/// (any thread) An immutable, loaded model. Copies share the packed weights, which go with the last copy or Session.
class LLMINFER_API Model {
 public:
  /// Loads a model. Errors: what the file has wrong (not_found, not_gguf, truncated, corrupt, unsupported_type,
  /// unsupported_architecture), invalid_argument naming an option, out_of_memory, cancelled after a stop request.
  static Result<Model> open(const ModelSource& source, LoadOptions options = {}, std::stop_token stop = {});

  /// What open() and Session::open() would take, from metadata alone.
  static Result<MemoryPlan> plan_memory(const ModelSource& source, const LoadOptions& options = {},
                                        const SessionOptions& session = {});

  /// Metadata and tensor table of a file, whatever its architecture.
  static Result<FileSummary> inspect(const ModelSource& source);

  const ModelInfo& info() const noexcept;
  const Tokenizer& tokenizer() const noexcept;

  class Body;
  /// For the library's own use.
  const std::shared_ptr<const Body>& body() const noexcept { return body_; }

 private:
  explicit Model(std::shared_ptr<const Body> body) noexcept;
  std::shared_ptr<const Body> body_;
};

}  // namespace v0
}  // namespace llminfer
