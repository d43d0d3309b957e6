// The options with which programs say how tokens are drawn.
#pragma once

#include <CLI/CLI.hpp>
#include <llminfer/sampling.hpp>

namespace examples {

/// --temperature, --top-k, --top-p, --min-p, --repetition-penalty and --seed.
void add_sampling_options(CLI::App& app, llminfer::SamplingOptions& sampling);

}  // namespace examples
