// What a graph takes from a file: which tensors, of what shape, converted how.
#include <cstring>
#include <string>
#include <vector>

#include "catch.h"
#include "models/file_weights.h"
#include "models/registry.h"
#include "quant/type_table.h"
#include "support/gguf_builder.h"

namespace llminfer::models {
namespace {

using test::Bytes;
using test::GgufBuilder;
using test::tiny_llama;

format::ModelFile open(const Bytes& bytes) { return format::ModelFile::open(ModelSource::memory(bytes)); }

ModelGraph build(const format::ModelFile& file, BuildOptions options = {}) {
  return build_model(file, file.hyper_parameters(), options);
}

/// The error of building a file, or a failure of the test.
Error error_of(const GgufBuilder& builder) {
  const Bytes bytes = builder.build();
  const format::ModelFile file = open(bytes);
  try {
    build(file);
  } catch (const Exception& e) {
    return e.error();
  }
  FAIL("built without an error");
  return {};
}

bool names(const Error& error, const std::string& what) { return error.message.find(what) != std::string::npos; }

void remove_tensor(GgufBuilder& builder, const std::string& name) {
  for (std::size_t i = 0; i < builder.tensors.size(); ++i) {
    if (builder.tensors[i].name == name) builder.tensors.erase(builder.tensors.begin() + static_cast<long>(i));
  }
}

const backend::Weight& weight_of(const ModelGraph& model, const std::string& name) {
  for (const backend::Weight& w : model.graph->weights) {
    if (w.name == name) return w;
  }
  FAIL("no weight " << name);
  return model.graph->weights.front();
}

std::int32_t id_of(const ModelGraph& model, const std::string& name) {
  return static_cast<std::int32_t>(&weight_of(model, name) - model.graph->weights.data());
}

/// A small model whose feed-forward width is no multiple of 32.
GgufBuilder narrow_llama() {
  GgufBuilder builder = tiny_llama();
  builder.number("llama.feed_forward_length", std::uint32_t{48});
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    for (const std::string part : {"ffn_gate", "ffn_up", "ffn_down"}) {
      test::GgufTensor& tensor = builder.at(layer + part + ".weight");
      tensor.dims = part == "ffn_down" ? std::vector<std::uint64_t>{48, 32} : std::vector<std::uint64_t>{32, 48};
      tensor.data = test::float_data(std::size_t{48} * 32, 5);
    }
  }
  return builder;
}

}  // namespace

TEST_CASE("weights: a tensor of the file each, the tied embedding once") {
  const Bytes bytes = tiny_llama().build();
  const format::ModelFile file = open(bytes);
  const ModelGraph model = build(file);
  CHECK(model.tensors.size() == file.tensors().size());
  REQUIRE(model.graph->weights.size() == model.tensors.size());
  for (std::size_t i = 0; i < model.tensors.size(); ++i) CHECK(model.graph->weights[i].name == model.tensors[i].name);
  CHECK(weight_of(model, "blk.0.attn_q.weight").type == WeightType::q8_0);
}

TEST_CASE("weights: a missing tensor is named") {
  for (const char* name : {"token_embd.weight", "output_norm.weight", "blk.1.attn_k.weight", "blk.0.ffn_down.weight",
                           "blk.1.ffn_norm.weight"}) {
    GgufBuilder builder = tiny_llama();
    remove_tensor(builder, name);
    const Error error = error_of(builder);
    CHECK(error.code == ErrorCode::not_found);
    INFO(error.message);
    CHECK(names(error, name));
  }
}

TEST_CASE("weights: a misshapen tensor is named with both shapes") {
  GgufBuilder builder = tiny_llama();
  builder.at("blk.1.attn_output.weight").dims = {16, 64};
  const Error error = error_of(builder);
  CHECK(error.code == ErrorCode::corrupt);
  INFO(error.message);
  CHECK(names(error, "blk.1.attn_output.weight"));
  CHECK(names(error, "[16, 64]"));
  CHECK(names(error, "[32, 32]"));
}

TEST_CASE("weights: a norm of the wrong length") {
  GgufBuilder builder = tiny_llama();
  test::GgufTensor& norm = builder.at("blk.0.ffn_norm.weight");
  norm.dims = {31};
  norm.data = test::float_data(31, 1);
  const Error error = error_of(builder);
  CHECK(error.code == ErrorCode::corrupt);
  CHECK(names(error, "blk.0.ffn_norm.weight"));
}

TEST_CASE("weights: a tensor that the architecture has no use for is refused") {
  const std::pair<const char*, std::vector<std::uint64_t>> extra[] = {
      {"blk.0.attn_q_norm.weight", {8}},    // known, but not to this architecture
      {"blk.0.attn_output.scale", {1}},     // an unknown name
      {"blk.1.ffn_gate_inp.weight", {32}},  // experts that the keys do not mention
      {"blk.2.attn_norm.weight", {32}},     // a layer too many
      {"classifier.weight", {32}},
  };
  for (const auto& [name, dims] : extra) {
    GgufBuilder builder = tiny_llama();
    builder.tensor(name, dims, 0, test::float_data(static_cast<std::size_t>(dims[0]), 3));
    const Error error = error_of(builder);
    CHECK(error.code == ErrorCode::unsupported_architecture);
    INFO(error.message);
    CHECK(names(error, name));
  }
}

TEST_CASE("weights: optional ones are used when there") {
  GgufBuilder builder = tiny_llama();
  builder.tensor("output.weight", {32, 16}, 0, test::float_data(std::size_t{32} * 16, 3));
  builder.tensor("blk.0.attn_q.bias", {32}, 0, test::float_data(32, 4));
  builder.tensor("rope_freqs.weight", {4}, 0, [] {
    Bytes factors;
    for (const float f : {1.0F, 1.0F, 2.0F, 8.0F}) test::put(factors, f);
    return factors;
  }());
  const Bytes bytes = builder.build();
  const ModelGraph model = build(open(bytes));
  CHECK(weight_of(model, "output.weight").rows == 16);
  CHECK(weight_of(model, "blk.0.attn_q.bias").columns == 32);
  REQUIRE(model.graph->rope_tables.size() == 1);
  CHECK(model.graph->rope_tables[0].inverse_frequency[3] == Approx(0.001 / 8));
}

TEST_CASE("weights: converted while they load") {
  const Bytes bytes = tiny_llama().build();
  const format::ModelFile file = open(bytes);
  for (const WeightType type : {WeightType::q4_0, WeightType::q8_0, WeightType::f16, WeightType::f32}) {
    BuildOptions options;
    options.weight_type = type;
    ModelGraph model = build(file, options);
    CHECK(weight_of(model, "blk.0.attn_norm.weight").type == WeightType::f32);
    CHECK(weight_of(model, "output_norm.weight").type == WeightType::f32);
    const FileWeights reader(file, model.graph, model.tensors);
    for (const char* name : {"token_embd.weight", "blk.1.attn_q.weight", "blk.1.ffn_down.weight"}) {
      const backend::Weight& weight = weight_of(model, name);
      REQUIRE(weight.type == type);
      const auto columns = static_cast<std::size_t>(weight.columns);
      const format::TensorInfo& stored = model.tensors[static_cast<std::size_t>(id_of(model, name))];
      std::vector<std::byte> from(static_cast<std::size_t>(stored.bytes));
      file.read(stored, 0, from);
      const std::size_t stored_row = quant::row_bytes(stored.type, columns);
      const std::size_t row = quant::row_bytes(type, columns);

      // Rows 2, 3 and 4: unpacked and packed one by one, but copied when they have the type already.
      std::vector<std::byte> expected(3 * row);
      if (stored.type == type) std::memcpy(expected.data(), from.data() + 2 * row, expected.size());
      std::vector<float> values(columns);
      for (std::size_t r = 0; r < 3 && stored.type != type; ++r) {
        quant::find(stored.type)->unpack_row(from.data() + (2 + r) * stored_row, values.data(), columns);
        quant::find(type)->pack_row(values.data(), expected.data() + r * row, columns);
      }
      std::vector<std::byte> got(3 * row);
      REQUIRE(reader.read_rows(id_of(model, name), 2, 3, got).has_value());
      INFO(name << " to " << describe(type).name);
      CHECK(got == expected);
    }
  }
}

TEST_CASE("weights: rows that are not whole blocks keep their type") {
  const Bytes bytes = narrow_llama().build();
  BuildOptions options;
  options.weight_type = WeightType::q4_0;
  const ModelGraph model = build(open(bytes), options);
  CHECK(weight_of(model, "blk.0.ffn_gate.weight").type == WeightType::q4_0);
  CHECK(weight_of(model, "blk.0.ffn_down.weight").type == WeightType::f32);
}

TEST_CASE("weights: reads out of range are errors") {
  const Bytes bytes = tiny_llama().build();
  const format::ModelFile file = open(bytes);
  const ModelGraph model = build(file);
  const FileWeights reader(file, model.graph, model.tensors);
  const std::int32_t id = id_of(model, "token_embd.weight");
  const std::size_t row = 32 * sizeof(float);
  std::vector<std::byte> out(2 * row);
  CHECK(reader.read_rows(id, 14, 2, out).has_value());
  const auto code = [&](std::int32_t weight, std::int64_t first, std::int64_t count) {
    const Result<void> result = reader.read_rows(weight, first, count, out);
    return result ? ErrorCode::mismatch : result.error().code;
  };
  CHECK(code(id, 15, 2) == ErrorCode::invalid_argument);
  CHECK(code(id, -1, 2) == ErrorCode::invalid_argument);
  CHECK(code(id, 0, 1) == ErrorCode::invalid_argument);
  CHECK(code(id, 0, -2) == ErrorCode::invalid_argument);
  CHECK(code(-1, 0, 2) == ErrorCode::invalid_argument);
  CHECK(code(1000, 0, 2) == ErrorCode::invalid_argument);
}

}  // namespace llminfer::models
