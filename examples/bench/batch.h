// Speed of several sequences at once.
#pragma once

#include <llminfer/model.hpp>
#include <stop_token>

namespace examples {

constexpr int batch_prompt = 128;   // tokens of each sequence's prompt
constexpr int batch_generate = 64;  // new tokens of each sequence

/// Tokens per second of all sequences together: `sequences` prompts, computed before the clock starts, then
/// batch_generate greedy tokens of each. The model must be loaded for as many sequences.
double batch_speed(const llminfer::Model& model, int sequences, const std::stop_token& stop);

}  // namespace examples
