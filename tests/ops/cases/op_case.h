// One case: a graph, its weights, and the steps to run, with their outputs compared. A graph's only input is tokens, so
// a case embeds from a float table whose rows are the op's inputs, and the op's output stands where logits do.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <llminfer/backend/backend.hpp>

#include "weight_data.h"

namespace llminfer::op_cases {

/// `count` tokens of sequence `sequence` (0 ..) at positions start, start + 1, ...
struct Part {
  std::int32_t sequence = 0;
  std::int32_t start = 0;
  std::int32_t count = 0;
};

struct CaseStep {
  std::vector<Part> parts{};
  std::vector<Token> tokens{};
  std::vector<std::int32_t> output_rows{};
  backend::OutputKind kind = backend::OutputKind::logits;
  std::int32_t k = 0;
  std::vector<std::uint32_t> allowed{};
};

struct OpCase {
  std::string name{};
  std::shared_ptr<const backend::Graph> graph{};
  std::vector<Bytes> weights{};  ///< per weight of the graph
  backend::KvFormat kv{KvType::f32, KvType::f32};
  std::vector<CaseStep> steps{};
  double limit = 0;
  double magnitude = 0;        ///< errors are divided by at least this
  std::int32_t exact_ids = 0;  ///< the first so many columns must be equal (a route's ids)
};

/// Makes a case when it is its turn, so that only one's weights are held.
struct CaseEntry {
  std::string name{};
  bool slow = false;
  std::function<OpCase(const std::string& name)> make{};
};
using CaseList = std::vector<CaseEntry>;

void add_copy_cases(CaseList& list);  // embed, slice, gather_rows
void add_elementwise_cases(CaseList& list);
void add_norm_cases(CaseList& list);
void add_matmul_cases(CaseList& list);
void add_rope_cases(CaseList& list);
void add_attention_cases(CaseList& list);
void add_moe_cases(CaseList& list);
void add_output_cases(CaseList& list);
void add_decoder_cases(CaseList& list);

CaseList all_cases();

}  // namespace llminfer::op_cases
