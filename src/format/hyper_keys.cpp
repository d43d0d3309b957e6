#include "format/hyper_keys.h"

#include <algorithm>
#include <limits>

#include "core/fail.h"
#include "format/printable.h"

namespace llminfer::format {
namespace {

// Far above any real model, far below where sizes computed from them could overflow.
constexpr std::int64_t max_layers = 4096, max_embedding = 1 << 20, max_heads = 65536, max_head_length = 65536,
                       max_feed_forward = 1 << 24, max_context = 1 << 30, max_vocabulary = 1 << 28, max_experts = 65536;

// Architectures whose converter permutes the rows of q and k so that RoPE pairs neighbours.
constexpr std::string_view interleaved_architectures[] = {
    "llama",         "llama4",    "llada",      "deci",    "mistral3",  "mistral4", "baichuan",
    "starcoder",     "internlm2", "minicpm",    "xverse",  "command-r", "cohere2",  "olmo",
    "arctic",        "deepseek",  "deepseek2",  "plm",     "chatglm",   "granite",  "granitemoe",
    "granitehybrid", "chameleon", "bailingmoe", "smollm3", "arcee",     "ernie4_5", "ernie4_5-moe"};

// One model's keys: the prefix put in front, the bounds checked, the message naming key and value.
class Keys {
 public:
  Keys(const Metadata& metadata, std::string architecture)
      : metadata_(metadata), architecture_(std::move(architecture)) {}

  std::string full(std::string_view key) const { return fmt::format("{}.{}", architecture_, key); }

  std::optional<int> integer(std::string_view key, std::int64_t least, std::int64_t most) const {
    const std::optional<std::int64_t> value = metadata_.integer(full(key));
    if (!value) return std::nullopt;
    return bounded(key, *value, least, most);
  }
  int required(std::string_view key, std::int64_t least, std::int64_t most) const {
    const std::optional<int> value = integer(key, least, most);
    if (!value) fail_missing(key);
    return *value;
  }
  /// One value for all layers, or one each.
  std::optional<std::vector<int>> per_layer(std::string_view key, int layers, std::int64_t least,
                                            std::int64_t most) const {
    const std::optional<std::vector<std::int64_t>> values = metadata_.integers(full(key));
    if (!values) return std::nullopt;
    if (values->size() == 1) {
      return std::vector<int>(static_cast<std::size_t>(layers), bounded(key, (*values)[0], least, most));
    }
    check_length(key, values->size(), layers);
    std::vector<int> result;
    for (const std::int64_t value : *values) result.push_back(bounded(key, value, least, most));
    return result;
  }
  /// A value that files may give per layer but must be the same in all.
  std::optional<int> uniform(std::string_view key, int layers, std::int64_t least, std::int64_t most) const {
    const std::optional<std::vector<int>> values = per_layer(key, layers, least, most);
    if (!values) return std::nullopt;
    const auto other = std::find_if(values->begin(), values->end(), [&](int v) { return v != values->front(); });
    if (other == values->end()) return values->front();
    core::fail(ErrorCode::unsupported_architecture,
               "key '{}' differs between layers ({} and {}), which is not supported", printable(full(key)),
               values->front(), *other);
  }
  std::optional<float> real(std::string_view key, double least, double most) const {
    const std::optional<double> value = metadata_.real(full(key));
    if (!value) return std::nullopt;
    if (*value < least || *value > most) {
      core::fail(ErrorCode::corrupt, "key '{}' is {}, not from {} to {}", printable(full(key)), *value, least, most);
    }
    return static_cast<float>(*value);
  }
  /// As real, but 0 means none.
  std::optional<float> nonzero(std::string_view key, double least, double most) const {
    const std::optional<double> value = metadata_.real(full(key));
    if (value && *value == 0) return std::nullopt;
    return real(key, least, most);
  }
  std::optional<std::string> string(std::string_view key) const { return metadata_.string(full(key)); }
  std::optional<bool> boolean(std::string_view key) const { return metadata_.boolean(full(key)); }
  const Metadata& metadata() const { return metadata_; }

  void check_length(std::string_view key, std::size_t length, int layers) const {
    if (length == static_cast<std::size_t>(layers)) return;
    core::fail(ErrorCode::corrupt, "key '{}' has {} elements for {} layers", printable(full(key)), length, layers);
  }
  [[noreturn]] void fail_missing(std::string_view key) const {
    core::fail(ErrorCode::corrupt, "key '{}' is missing", printable(full(key)));
  }

 private:
  int bounded(std::string_view key, std::int64_t value, std::int64_t least, std::int64_t most) const {
    if (value >= least && value <= most) return static_cast<int>(value);
    core::fail(ErrorCode::corrupt, "key '{}' is {}, not from {} to {}", printable(full(key)), value, least, most);
  }

  const Metadata& metadata_;
  std::string architecture_;
};

constexpr double huge = 1e30;  // a factor whose product with any activation stays a float
constexpr double tiny = 1e-30;

void read_heads(const Keys& keys, HyperParameters& hyper) {
  const int layers = hyper.block_count;
  std::optional<std::vector<int>> heads = keys.per_layer("attention.head_count", layers, 1, max_heads);
  if (!heads) keys.fail_missing("attention.head_count");
  hyper.head_counts = std::move(*heads);
  hyper.head_counts_kv = keys.per_layer("attention.head_count_kv", layers, 1, max_heads).value_or(hyper.head_counts);
  for (int layer = 0; layer < layers; ++layer) {
    if (hyper.head_count(layer) % hyper.head_count_kv(layer) == 0) continue;
    core::fail(ErrorCode::corrupt, "key '{}' is {}, which does not divide the head_count of {} (layer {})",
               printable(keys.full("attention.head_count_kv")), hyper.head_count_kv(layer), hyper.head_count(layer),
               layer);
  }
  const auto length = [&](const char* key) {
    const std::optional<int> given = keys.integer(key, 1, max_head_length);
    if (given) return *given;
    if (hyper.embedding_length % hyper.head_count(0) != 0) {
      core::fail(ErrorCode::corrupt, "key '{}' is {}, no multiple of the head_count of {}, and '{}' is missing",
                 printable(keys.full("embedding_length")), hyper.embedding_length, hyper.head_count(0),
                 printable(keys.full(key)));
    }
    return hyper.embedding_length / hyper.head_count(0);
  };
  hyper.key_length = length("attention.key_length");
  hyper.value_length = length("attention.value_length");
  hyper.key_length_swa = keys.integer("attention.key_length_swa", 1, max_head_length);
  hyper.value_length_swa = keys.integer("attention.value_length_swa", 1, max_head_length);
}

RopeScaling scaling_type(const Keys& keys) {
  const std::optional<std::string> type = keys.string("rope.scaling.type");
  if (!type || *type == "none") return RopeScaling::none;
  if (*type == "linear") return RopeScaling::linear;
  if (*type == "yarn") return RopeScaling::yarn;
  if (*type == "longrope") return RopeScaling::longrope;
  core::fail(ErrorCode::unsupported_architecture, "key '{}' is '{}', not none, linear, yarn or longrope",
             printable(keys.full("rope.scaling.type")), printable(*type));
}

std::optional<int> rope_dimensions(const Keys& keys, const char* key, int most) {
  const std::optional<int> count = keys.integer(key, 0, most);
  if (count && *count % 2 != 0) {
    core::fail(ErrorCode::corrupt, "key '{}' is {}, an odd number", printable(keys.full(key)), *count);
  }
  return count;
}

void read_rope(const Keys& keys, HyperParameters& hyper) {
  RopeParameters& rope = hyper.rope;
  const auto* const end = std::end(interleaved_architectures);
  if (std::find(std::begin(interleaved_architectures), end, hyper.architecture) != end) {
    rope.pairing = RopePairing::interleaved;
  }
  rope.dimension_count = rope_dimensions(keys, "rope.dimension_count", hyper.key_length).value_or(hyper.key_length);
  rope.dimension_count_swa =
      rope_dimensions(keys, "rope.dimension_count_swa", hyper.key_length_swa.value_or(hyper.key_length));
  rope.freq_base = keys.real("rope.freq_base", tiny, huge).value_or(rope.freq_base);
  rope.freq_base_swa = keys.real("rope.freq_base_swa", tiny, huge);
  rope.scaling = scaling_type(keys);
  std::optional<float> factor = keys.nonzero("rope.scaling.factor", 1e-3, 1e6);
  // Old files have only a linear factor, under its old name.
  if (!factor) factor = keys.nonzero("rope.scale_linear", 1e-3, 1e6);
  rope.factor = factor.value_or(1.0F);
  if (rope.scaling == RopeScaling::none && factor && !keys.string("rope.scaling.type")) {
    rope.scaling = RopeScaling::linear;
  }
  rope.original_context_length =
      keys.integer("rope.scaling.original_context_length", 1, max_context).value_or(hyper.context_length);
  rope.attn_factor = keys.nonzero("rope.scaling.attn_factor", tiny, huge);
  rope.yarn_ext_factor = keys.real("rope.scaling.yarn_ext_factor", -huge, huge);
  rope.yarn_attn_factor = keys.real("rope.scaling.yarn_attn_factor", 0, huge);
  rope.yarn_beta_fast = keys.real("rope.scaling.yarn_beta_fast", 0, huge);
  rope.yarn_beta_slow = keys.real("rope.scaling.yarn_beta_slow", 0, huge);
  rope.yarn_log_multiplier = keys.real("rope.scaling.yarn_log_multiplier", -huge, huge);
}

// sliding_window_pattern is a flag for each layer (true: windowed) or a period.
void read_window(const Keys& keys, HyperParameters& hyper) {
  constexpr const char* pattern_key = "attention.sliding_window_pattern";
  hyper.sliding_window = keys.integer("attention.sliding_window", 0, max_context);
  if (hyper.sliding_window == 0) hyper.sliding_window.reset();
  const Value* pattern = keys.metadata().find(keys.full(pattern_key));
  if (!pattern) return;
  if (pattern->type != ValueType::array && pattern->type != ValueType::boolean) {
    hyper.sliding_window_period = keys.integer(pattern_key, 0, max_layers);
    return;
  }
  if (pattern->type == ValueType::array && pattern->element != ValueType::boolean) {
    for (const int flag : keys.per_layer(pattern_key, hyper.block_count, 0, 1).value_or(std::vector<int>{})) {
      hyper.sliding_window_layers.push_back(flag != 0);
    }
    return;
  }
  hyper.sliding_window_layers = keys.metadata().booleans(keys.full(pattern_key)).value_or(std::vector<bool>{});
  keys.check_length(pattern_key, hyper.sliding_window_layers.size(), hyper.block_count);
}

void read_experts(const Keys& keys, HyperParameters& hyper) {
  ExpertParameters& experts = hyper.experts;
  const int layers = hyper.block_count;
  experts.count = keys.integer("expert_count", 0, max_experts).value_or(0);
  experts.used = keys.uniform("expert_used_count", layers, 0, max_experts).value_or(0);
  if (experts.used > experts.count || (experts.used == 0 && experts.count > 0)) {
    core::fail(ErrorCode::corrupt, "key '{}' is {} while expert_count is {}", printable(keys.full("expert_used_count")),
               experts.used, experts.count);
  }
  experts.feed_forward_length = keys.uniform("expert_feed_forward_length", layers, 1, max_feed_forward);
  experts.shared_count = keys.integer("expert_shared_count", 0, max_experts);
  experts.shared_feed_forward_length = keys.uniform("expert_shared_feed_forward_length", layers, 0, max_feed_forward);
  experts.leading_dense_blocks = keys.integer("leading_dense_block_count", 0, layers);
  experts.weights_scale = keys.real("expert_weights_scale", -huge, huge);
  experts.weights_norm = keys.boolean("expert_weights_norm");
  const std::optional<int> gating = keys.integer("expert_gating_func", 0, 1000);
  if (!gating || *gating == 0) return;
  if (*gating > 3) {
    core::fail(ErrorCode::unsupported_architecture, "key '{}' is {}, which is unknown",
               printable(keys.full("expert_gating_func")), *gating);
  }
  experts.gating = static_cast<ExpertGating>(*gating);
}

void read_scales(const Keys& keys, HyperParameters& hyper) {
  hyper.rms_eps = keys.real("attention.layer_norm_rms_epsilon", tiny, 1);
  hyper.norm_eps = keys.real("attention.layer_norm_epsilon", tiny, 1);
  hyper.attention_scale = keys.nonzero("attention.scale", tiny, huge);
  hyper.attn_logit_softcap = keys.nonzero("attn_logit_softcapping", tiny, huge);
  hyper.final_logit_softcap = keys.nonzero("final_logit_softcapping", tiny, huge);
  hyper.logit_scale = keys.real("logit_scale", -huge, huge);
  hyper.embedding_scale = keys.real("embedding_scale", -huge, huge);
  hyper.residual_scale = keys.real("residual_scale", -huge, huge);
}

struct FieldKey {
  std::string_view field, key;
};
constexpr FieldKey field_keys[] = {
    {"rms_eps", "attention.layer_norm_rms_epsilon"},
    {"norm_eps", "attention.layer_norm_epsilon"},
    {"sliding_window", "attention.sliding_window"},
    {"attention_scale", "attention.scale"},
    {"attn_logit_softcap", "attn_logit_softcapping"},
    {"final_logit_softcap", "final_logit_softcapping"},
    {"key_length_swa", "attention.key_length_swa"},
    {"value_length_swa", "attention.value_length_swa"},
    {"freq_base_swa", "rope.freq_base_swa"},
    {"experts.feed_forward_length", "expert_feed_forward_length"},
    {"experts.shared_count", "expert_shared_count"},
    {"experts.shared_feed_forward_length", "expert_shared_feed_forward_length"},
    {"experts.weights_scale", "expert_weights_scale"},
    {"experts.weights_norm", "expert_weights_norm"},
    {"experts.gating", "expert_gating_func"},
};

}  // namespace

bool HyperParameters::windowed(int layer, int default_period) const {
  if (!sliding_window) return false;
  if (!sliding_window_layers.empty()) return sliding_window_layers[static_cast<std::size_t>(layer)];
  const int period = sliding_window_period.value_or(default_period);
  return period <= 0 || layer % period < period - 1;
}

std::string key_of_field(std::string_view architecture, std::string_view field) {
  for (const FieldKey& entry : field_keys) {
    if (entry.field == field) return fmt::format("{}.{}", architecture, entry.key);
  }
  return fmt::format("{}.{}", architecture, field);
}

HyperParameters read_hyper_parameters(const Metadata& metadata, std::uint64_t vocabulary) {
  const std::string type = metadata.string("general.type").value_or("model");
  if (type != "model") {
    core::fail(ErrorCode::unsupported_architecture, "key 'general.type' is '{}': the file holds no language model",
               printable(type));
  }
  HyperParameters hyper;
  hyper.architecture = metadata.string("general.architecture").value_or("");
  if (hyper.architecture.empty()) core::fail(ErrorCode::corrupt, "key 'general.architecture' is missing or empty");
  hyper.name = metadata.string("general.name").value_or("");
  const Keys keys(metadata, hyper.architecture);
  hyper.vocab_size = keys.integer("vocab_size", 1, max_vocabulary)
                         .value_or(static_cast<int>(std::min<std::uint64_t>(vocabulary, max_vocabulary)));
  hyper.context_length = keys.required("context_length", 1, max_context);
  hyper.embedding_length = keys.required("embedding_length", 1, max_embedding);
  hyper.block_count = keys.required("block_count", 1, max_layers);
  read_heads(keys, hyper);
  hyper.feed_forward_lengths = keys.per_layer("feed_forward_length", hyper.block_count, 0, max_feed_forward)
                                   .value_or(std::vector<int>(static_cast<std::size_t>(hyper.block_count), 0));
  read_scales(keys, hyper);
  read_rope(keys, hyper);
  read_window(keys, hyper);
  read_experts(keys, hyper);
  return hyper;
}

}  // namespace llminfer::format
