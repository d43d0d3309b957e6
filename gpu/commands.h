// What gpu_check does: each command fills a JSON object and returns whether all was well.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/engine.h"
#include "llminfer/backend/backend.hpp"

namespace gpu_check {

using Json = nlohmann::ordered_json;

struct Options {
  std::uint64_t seed = 1;
  std::string filter{};         ///< of case names, and of weight types
  int count = 1000;             ///< of replayed steps
  double seconds = 2;           ///< of a ceiling
  bool tiny = false;            ///< shapes that a simulator takes
  bool slow = false;            ///< the large op cases as well
  int samples = 30;             ///< of a time, of which the median is taken
  std::vector<int> rows{};      ///< of products; empty: all
  std::vector<int> shape{};     ///< of products: columns, rows of weights; empty: those of models
  double copy = 0, tensor = 0;  ///< measured ceilings that shares are of; 0: not known
};

/// Every op case with data of a new seed against the reference device.
bool correct(const llminfer::backend::Backend& device, const Options& options, Json& out);

/// One token a sequence, again and again, replayed: all outputs must have the bits of the first.
bool replay(const llminfer::backend::Backend& device, const Options& options, Json& out);

/// Rates of copying and of tensor instructions.
bool ceilings(const std::shared_ptr<llminfer::cuda::Engine>& engine, const Options& options, Json& out);

/// Times of products with float weights by our kernels and by cuBLAS, where it is.
bool dense(const std::shared_ptr<llminfer::cuda::Engine>& engine, const Options& options, Json& out);

/// Times of products and of attention by type and shape, as shares of the ceilings.
bool products(const std::shared_ptr<llminfer::cuda::Engine>& engine, const Options& options, Json& out);
bool attention(const std::shared_ptr<llminfer::cuda::Engine>& engine, const Options& options, Json& out);

}  // namespace gpu_check
