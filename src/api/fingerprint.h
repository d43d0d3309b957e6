// What tells one model from another: for saved sessions and the prefix cache.
#pragma once

#include <llminfer/backend/backend.hpp>

#include "core/hash.h"

namespace llminfer::api {

/// Hash of the graph (shapes, types and names of all weights, constants of the ops, RoPE tables, state groups) and of
/// four rows of every weight, spread over it. The context of the graph does not count. Reads those rows; throws what
/// reading reports.
core::Hash128 fingerprint(const backend::Graph& graph, const backend::WeightReader& weights);

/// A secret for keyed hashes, from the system. Throws what that reports.
core::HashKey random_key();

}  // namespace llminfer::api
