// How long values of a graph must live where several of its ops are one launch.
#pragma once

#include <llminfer/backend/backend.hpp>

#include "host/fusions.h"

namespace llminfer::cuda {

/// A graph to plan memory by: what a launch reads lives as long as what it writes, since some of its blocks may still
/// read while others write. Values keep their numbers, others are added behind them.
backend::Graph with_lives_of_launches(const backend::Graph& graph, const Fusions& fusions);

}  // namespace llminfer::cuda
