// Shape checks of a graph: every device may rely on what passes here.
#pragma once

#include <llminfer/backend/graph.hpp>

namespace llminfer::graph {

/// Throws Exception (corrupt) naming the op, its number and the values at fault unless: ids are in range, each value
/// has one writer before its readers, widths and weight shapes agree with what graph.hpp says of each op, weights are
/// positive and their row lengths whole blocks, groups cover the ops in order, states and rope tables are well formed.
void check(const backend::Graph& graph);

}  // namespace llminfer::graph
