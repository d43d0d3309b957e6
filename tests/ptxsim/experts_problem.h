// Products of experts with random weights and a given choice, and their exact results.
#pragma once

#include <algorithm>

#include "matmul_problem.h"

namespace ptxsim::tests {

struct ExpertsShape {
  WeightType type;
  int tokens, used, experts, columns_in, columns_out;
};

/// Token t chooses experts (3 t + s) % experts, s < used: some have many tokens, and with few tokens most have none.
class ExpertsProblem {
 public:
  explicit ExpertsProblem(const ExpertsShape& s)
      : shape_(s), all_({s.type, s.tokens, s.columns_in, s.experts * s.columns_out}) {
    sort();
    const std::size_t one = all_.file.size() / static_cast<std::size_t>(s.experts);
    layout_ = cuda::fragment_layout(s.type, s.columns_out, s.columns_in);
    repacked_.resize(static_cast<std::size_t>(layout_.bytes * s.experts));
    for (int e = 0; e < s.experts; ++e) {
      const auto n = static_cast<std::size_t>(e);
      cuda::repack_rows(layout_, std::span(all_.file).subspan(n * one, one), s.columns_out,
                        std::span(repacked_).subspan(n * static_cast<std::size_t>(layout_.bytes),
                                                     static_cast<std::size_t>(layout_.bytes)));
    }
  }

  int expert_of(int row) const { return (3 * (row / shape_.used) + row % shape_.used) % shape_.experts; }
  int rows() const { return shape_.tokens * shape_.used; }
  /// Experts that are chosen, and the bytes of their weights.
  double chosen() const {
    std::vector<bool> chosen(static_cast<std::size_t>(shape_.experts));
    for (int r = 0; r < rows(); ++r) chosen[static_cast<std::size_t>(expert_of(r))] = true;
    return static_cast<double>(std::count(chosen.begin(), chosen.end(), true));
  }
  double chosen_bytes() const { return chosen() * static_cast<double>(layout_.bytes); }

  std::vector<float> run(bool shared, bool stand = false, bool runs = false) const;

  /// As Problem::error_of, of rows (token, choice).
  double error_of(const std::vector<float>& out) const {
    double worst = 0;
    const auto width = static_cast<std::size_t>(shape_.columns_out);
    for (int r = 0; r < rows(); ++r) {
      double squares = 0, error = 0;
      for (std::size_t j = 0; j < width; ++j) {
        const double e = all_.exact(r / shape_.used, expert_of(r) * shape_.columns_out + static_cast<int>(j));
        squares += e * e;
        error += std::pow(static_cast<double>(out[static_cast<std::size_t>(r) * width + j]) - e, 2);
      }
      worst = worse(worst, std::sqrt(error / squares));
    }
    return worst;
  }

 private:
  void sort() {
    const auto most = static_cast<std::size_t>(cuda::expert_tiles(shape_.tokens, shape_.used, shape_.experts));
    for (int e = 0; e < shape_.experts; ++e) {
      for (int r = 0; r < rows(); ++r) {
        if (expert_of(r) != e) continue;
        if (tiles_.empty() || tiles_.back().expert != e || tiles_.back().rows == 8) {
          tiles_.push_back({e, 0});
          tile_rows_.resize(8 * tiles_.size(), -1);
        }
        tile_rows_[8 * (tiles_.size() - 1) + static_cast<std::size_t>(tiles_.back().rows++)] = r;
      }
    }
    REQUIRE(tiles_.size() <= most);
    tiles_.resize(most);
    tile_rows_.resize(8 * most, -1);
    runs_.resize(static_cast<std::size_t>(cuda::expert_runs(static_cast<std::int64_t>(most), shape_.experts)));
    std::size_t run = 0;
    for (std::size_t n = 0; n < tiles_.size() && tiles_[n].rows > 0; ++n) {
      cuda::ExpertRun& before = runs_[run == 0 ? 0 : run - 1];
      const bool same = run > 0 && before.expert == tiles_[n].expert && before.tiles < cuda::expert_run_tiles;
      if (same) {
        ++before.tiles;
      } else {
        REQUIRE(run < runs_.size());
        runs_[run++] = {tiles_[n].expert, static_cast<std::int32_t>(n), 1};
      }
    }
  }

  ExpertsShape shape_;
  Problem all_;  // rows of weights of all experts, one after the other
  cuda::FragmentLayout layout_;
  std::vector<std::byte> repacked_;
  std::vector<cuda::ExpertTile> tiles_;
  std::vector<std::int32_t> tile_rows_;
  std::vector<cuda::ExpertRun> runs_;
};

/// Fragments of the tokens of all tiles, then the product. `shared`: blocks may share the rows of weights. `stand`:
/// fragments of the tokens as they stand, which tiles find by their numbers. `runs`: with the tiles of an expert
/// together, as for prompts.
inline std::vector<float> ExpertsProblem::run(bool shared, bool stand, bool runs) const {
  std::vector<void*> held;
  const auto keep = [&held](auto* p) {
    held.push_back(p);
    return p;
  };
  std::vector<std::int32_t> tokens;
  for (const std::int32_t r : tile_rows_) tokens.push_back(r < 0 ? -1 : r / shape_.used);
  cuda::FragmentsParams f;
  f.rows = stand ? shape_.tokens : static_cast<std::int32_t>(tile_rows_.size());
  f.columns = shape_.columns_in;
  f.blocks = static_cast<std::int32_t>(cuda::fragment_blocks(f.columns));
  f.in = keep(to_device(all_.in));
  const std::int32_t* tile_tokens = keep(to_device(tokens));
  if (!stand) f.rows_wanted = tile_tokens;
  const std::vector<std::uint16_t> room(static_cast<std::size_t>(cuda::fragments_bytes(f.rows, f.blocks) / 2));
  f.fragments = keep(to_device(room));
  if (shape_.type == WeightType::f16 || shape_.type == WeightType::bf16) f.rest = keep(to_device(room));
  f.scales = keep(to_device(std::vector<float>(static_cast<std::size_t>(f.rows + 7) / 8 * 8)));
  f.block_sums =
      keep(to_device(std::vector<float>(static_cast<std::size_t>(cuda::block_sum_floats(f.rows, f.blocks)))));
  REQUIRE(launch(f, nullptr) == cudaSuccess);
  cuda::MatMulQuantParams m;
  m.targets[0].weight = reinterpret_cast<const std::uint8_t*>(keep(to_device(repacked_)));
  m.targets[0].bias = keep(to_device(all_.bias));
  m.targets[0].columns_out = shape_.columns_out;
  m.fragments = f.fragments;
  m.rest = f.rest;
  m.row_scales = f.scales;
  m.block_sums = f.block_sums;
  m.rows = static_cast<std::int32_t>(tile_rows_.size());
  m.chunks = static_cast<std::int32_t>(layout_.chunks);
  m.in_blocks = f.blocks;
  m.type = shape_.type;
  m.most_of_cluster = most_of_cluster();
  m.tiles = keep(to_device(tiles_));
  m.tile_rows = keep(to_device(tile_rows_));
  if (runs) {
    m.runs = keep(to_device(runs_));
    m.run_count = static_cast<std::int32_t>(runs_.size());
  }
  m.expert_bytes = layout_.bytes;
  if (stand) m.tile_tokens = tile_tokens;
  m.in_rows = f.rows;
  if (shared) {
    m.partials = keep(to_device(std::vector<float>(static_cast<std::size_t>(cuda::matmul_partial_floats(m.rows)))));
    m.counters = keep(to_device(std::vector<unsigned>(cuda::matmul_counters)));
  }
  std::vector<float> out(static_cast<std::size_t>(rows() * shape_.columns_out));
  m.targets[0].out = keep(to_device(out));
  REQUIRE(launch(m, nullptr) == cudaSuccess);
  REQUIRE(cudaMemcpy(out.data(), m.targets[0].out, out.size() * sizeof(float), cudaMemcpyDeviceToHost) == cudaSuccess);
  for (const void* p : held) cudaFree(const_cast<void*>(p));
  return out;
}

}  // namespace ptxsim::tests
