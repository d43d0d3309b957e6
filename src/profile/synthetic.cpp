#include "profile/synthetic.h"

#include <cmath>
#include <cstring>

#include "graph/builder.h"

namespace llminfer::profile {
namespace {

using backend::GroupKind;

/// The layer that most decoders have: norm, attention with shared KV heads, norm, gated feed-forward.
class DecoderBuilder {
 public:
  explicit DecoderBuilder(const SyntheticShape& shape) : shape_(shape) {}

  backend::Graph run(const std::vector<WeightType>& types) {
    const backend::WeightId embedding = matrix(types.front(), shape_.width, shape_.vocabulary);
    b_.group(GroupKind::embed);
    backend::ValueId x = b_.embed(embedding, 1.0F);
    for (std::size_t i = 0; i < types.size(); ++i) {
      x = layer(x, types[i], static_cast<std::int32_t>(i), i + 1 == types.size());
    }
    b_.group(GroupKind::head);
    x = norm(x);
    const backend::ValueId logits = b_.matmul(x, embedding);
    return b_.finish(logits, x, shape_.vocabulary, shape_.context);
  }

 private:
  backend::WeightId matrix(WeightType type, std::int64_t columns, std::int64_t rows) {
    return b_.weight({"synthetic", type, columns, rows, 1, backend::Cut::none});
  }
  backend::ValueId norm(backend::ValueId in) {
    return b_.rms_norm(in, matrix(WeightType::f32, shape_.width, 1), shape_.width, 1e-5F);
  }
  std::int32_t table() {
    backend::RopeTable table;
    for (int i = 0; i < shape_.head_width / 2; ++i) {
      table.inverse_frequency.push_back(
          std::pow(10000.0F, -2.0F * static_cast<float>(i) / static_cast<float>(shape_.head_width)));
    }
    return b_.rope_table(std::move(table));
  }

  backend::ValueId layer(backend::ValueId x, WeightType type, std::int32_t index, bool last) {
    const std::int32_t other = index % 3 == 0 ? 0 : shape_.other_kv_heads[static_cast<std::size_t>(index % 3 - 1)];
    const std::int32_t kv_heads = other > 0 ? other : shape_.kv_heads;
    const std::int32_t q_width = shape_.heads * shape_.head_width, kv_width = kv_heads * shape_.head_width;
    b_.group(GroupKind::qkv, index);
    const backend::ValueId h = norm(x);
    const backend::ValueId q_raw = b_.matmul(h, matrix(type, shape_.width, q_width));
    const backend::ValueId k_raw = b_.matmul(h, matrix(type, shape_.width, kv_width));
    const backend::ValueId v = b_.matmul(h, matrix(type, shape_.width, kv_width));
    const backend::ValueId q = b_.rope(q_raw, table(), shape_.heads, backend::RopePairing::half);
    const backend::ValueId k = b_.rope(k_raw, table(), kv_heads, backend::RopePairing::half);
    const backend::StateSlot slot = b_.state(0, kv_heads, shape_.head_width, shape_.head_width);
    b_.kv_write(k, v, slot);
    b_.group(GroupKind::attention, index);
    backend::PagedAttention attention;
    attention.q = q;
    attention.slot = slot;
    attention.heads = shape_.heads;
    attention.scale = 1.0F / std::sqrt(static_cast<float>(shape_.head_width));
    backend::ValueId a = b_.attention(attention);
    b_.group(GroupKind::attention_out, index);
    if (last) {
      x = b_.gather_rows(x);
      a = b_.gather_rows(a);
    }
    x = b_.add(x, b_.matmul(a, matrix(type, q_width, shape_.width)));
    b_.group(GroupKind::ffn, index);
    const backend::ValueId f = norm(x);
    const backend::ValueId gate = b_.matmul(f, matrix(type, shape_.width, shape_.feed_forward));
    const backend::ValueId up = b_.matmul(f, matrix(type, shape_.width, shape_.feed_forward));
    const backend::ValueId act = b_.gated_activation(gate, up, backend::Activation::silu);
    return b_.add(x, b_.matmul(act, matrix(type, shape_.feed_forward, shape_.width)));
  }

  SyntheticShape shape_;
  graph::GraphBuilder b_;
};

}  // namespace

std::shared_ptr<const backend::Graph> synthetic_decoder(const SyntheticShape& shape,
                                                        const std::vector<WeightType>& types) {
  return std::make_shared<const backend::Graph>(DecoderBuilder(shape).run(types));
}

Result<void> SyntheticWeights::read_rows(backend::WeightId id, std::int64_t first_row, std::int64_t,
                                         std::span<std::byte> out) const {
  const WeightType type = graph_->weights[static_cast<std::size_t>(id)].type;
  if (type == WeightType::f32) {
    const float value = 0.01F;
    for (std::size_t i = 0; i + sizeof(value) <= out.size(); i += sizeof(value)) {
      std::memcpy(out.data() + i, &value, sizeof(value));
    }
    return {};
  }
  // Two such bytes are an ordinary number as f16 (2 ^ -4 or so) as well as, for the second base, as bf16; one byte of
  // the third is an ordinary power of two for MXFP4.
  const unsigned base = type == WeightType::bf16 ? 0x3CU : type == WeightType::mxfp4 ? 0x74U : 0x28U;
  std::uint32_t random = static_cast<std::uint32_t>(first_row) * 2654435761U + static_cast<std::uint32_t>(id);
  for (std::byte& b : out) {
    random = random * 1664525U + 1013904223U;
    b = static_cast<std::byte>(base | (random >> 30));
  }
  return {};
}

}  // namespace llminfer::profile
