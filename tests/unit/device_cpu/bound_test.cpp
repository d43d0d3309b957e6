// Every result of every matmul kernel lies inside a proven bound against double arithmetic on the unpacked weights and
// the activations as they came: random, adversarial and real weights.
//
// y = sum over blocks b of 32 of w_b . x_b is computed as the sum of w_b . (d q)_b, q whole numbers, u = 2^-24:
//   rounding to q   q rounds x / d0, d0 = max |x_b| / 127, so that |x_b - d0 q| <= sqrt(32) d0 / 2 (as vectors); d fits
//                   best, so that |x_b - d q| is no longer. Other q are taken if their |x_b - d q| is smaller, by sums
//                   in float that are off by less than 20 u of |x_b|^2 each. By Cauchy and Schwarz a block's error is
//                   at most |w_b| sqrt(32 d0^2 / 4 + 40 u |x_b|^2). Where max |x_b| < 1e-30, q = 0 and it is at most
//                   |w_b| |x_b|.
//   d itself        is computed in float: some 30 roundings, so (d q) is off by 1e-5 |x_b| at most.
//   the sum         whole-number sums are exact; a term is rounded at most twice before its fma and once in each fma
//                   after it: N terms t, (N + 2) u sum |t|. Formats with minima have two terms a block.
//   underflow       a term below the normal floats is off by at most 2^-149 for each unit of its whole number.
// Float weights have no activations to round: K u sum |w x|, and the underflow.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "catch.h"
#include "core/half.h"
#include "format/model_file.h"
#include "matmul_case.h"

namespace llminfer::cpu::test {
namespace {

constexpr double unit = 0x1p-24;

/// |t| summed over the terms of one block of 32 for row `row` of a panel, an upper bound: all products of one sign.
/// `x`: |d q|.
double terms(const SlabScaled& s, int zero, int row, const double* x) {
  double sum = 0;
  for (int i = 0; i < 32; ++i) sum += (s.levels[i / 4][row][i % 4] + zero) * x[i];
  return std::fabs(s.d[row]) * sum;
}
double terms(const SlabMin& s, int, int row, const double* x) {
  double sum = 0, plain = 0;
  for (int i = 0; i < 32; ++i) {
    sum += s.levels[i / 4][row][i % 4] * x[i];
    plain += x[i];
  }
  return std::fabs(s.d[row]) * sum + std::fabs(s.m[row]) * plain;
}
double terms(const SlabByte& s, int, int row, const double* x) {
  double sum = 0;
  for (int i = 0; i < 32; ++i) sum += std::abs(s.levels[i % 2][i / 4][row][i % 4 / 2]) * x[i];
  return std::fabs(s.d[row]) * sum;
}
double terms(const SlabGroup& s, int, int row, const double* x) {
  double sum = 0, pairs = 0;
  for (int i = 0; i < 32; ++i) {
    sum += std::abs(s.scale[i / 16][row][0]) * s.levels[i / 4][row][i % 4] * x[i];
    pairs += std::abs(s.pair[row][i / 16]) * x[i];
  }
  return std::fabs(s.d[row]) * (sum + pairs) + std::fabs(s.dm[row]) * pairs;
}

template <class Block>
double all_terms(const std::byte* slab, int zero, int row, const std::vector<double>& x) {
  double sum = 0;
  for (std::size_t b = 0; b < x.size() / 32; ++b) {
    sum += terms(reinterpret_cast<const Block*>(slab)[b], zero, row, x.data() + 32 * b);
  }
  return sum;
}

/// What the kernels multiply, from a panel: its slab by the portable unpacker.
class Terms {
 public:
  Terms(Case& c, const Kernels& portable) : format_(slab_format(c.type_)), columns_(c.shape().columns) {
    const std::size_t bytes = (slab_bytes(format_.kind, columns_) + 63) / 64 * 64;
    for (std::int64_t p = 0; p < c.shape().panels; ++p) {
      std::vector<Line>& slab = slabs_.emplace_back(bytes / 64);
      portable.unpack[static_cast<int>(c.type_)](
          unpack_args(c.shape(), c.panel(p), 0, c.shape().blocks, bytes_of(slab)));
    }
  }
  bool minima() const {
    return format_.kind == SlabKind::nibble_min || format_.kind == SlabKind::five_min ||
           format_.kind == SlabKind::group_min;
  }
  double of(std::int64_t r, const std::vector<double>& x) {
    const std::byte* slab = bytes_of(slabs_[static_cast<std::size_t>(r / panel_rows)]);
    const int row = static_cast<int>(r % panel_rows);
    switch (format_.kind) {
      case SlabKind::nibble:
      case SlabKind::five:
        return all_terms<SlabScaled>(slab, format_.zero, row, x);
      case SlabKind::nibble_min:
      case SlabKind::five_min:
        return all_terms<SlabMin>(slab, 0, row, x);
      case SlabKind::byte:
        return all_terms<SlabByte>(slab, 0, row, x);
      default:
        return all_terms<SlabGroup>(slab, 0, row, x);
    }
  }

 private:
  SlabFormat format_;
  std::int64_t columns_;
  std::vector<std::vector<Line>> slabs_{};
};

/// The largest error of `out` as a share of its bound.
double worst_share(Case& c, const std::vector<float>& w, const std::vector<float>& out, Terms* terms) {
  const auto columns = static_cast<std::size_t>(c.shape().columns), rows = static_cast<std::size_t>(c.shape().rows);
  double worst = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(c.count_); ++i) {
    const float* x = c.in().data() + i * columns;
    std::vector<double> used(columns);  // |d q|
    if (terms != nullptr) {
      const QuantRow q = c.quant().row(static_cast<std::int64_t>(i));
      for (std::size_t k = 0; k < columns; ++k) used[k] = std::fabs(static_cast<double>(q.d[k / 32]) * q.q[k]);
    }
    for (std::size_t r = 0; r < rows; ++r) {
      double exact = 0, size = 0, bound = 0;
      for (std::size_t b = 0; b < columns; b += 32) {
        double weights = 0, inputs = 0, top = 0;
        for (std::size_t k = b; k < std::min(columns, b + 32); ++k) {
          const double weight = w[r * columns + k];
          exact += weight * x[k];
          size += std::fabs(weight * x[k]);
          weights += weight * weight;
          inputs += static_cast<double>(x[k]) * x[k];
          top = std::max(top, std::fabs(static_cast<double>(x[k])));
        }
        if (terms == nullptr) continue;
        weights = std::sqrt(weights);
        inputs = std::sqrt(inputs);
        const double rounded = std::sqrt(32.0 * top * top / (254 * 254) + 40 * unit * inputs * inputs);
        bound += weights * (top < 1.001e-30 ? inputs : rounded + 1e-5 * inputs);
      }
      if (terms != nullptr) {
        const double n = static_cast<double>(columns / 32) * (terms->minima() ? 2 : 1);
        bound += (n + 2) * 1.01 * unit * terms->of(static_cast<std::int64_t>(r), used) + n * 0x1p-125;
      } else {
        bound += static_cast<double>(columns) * 1.01 * unit * size + static_cast<double>(columns) * 0x1p-149;
      }
      const double error = std::fabs(out[i * rows + r] - exact);
      worst = std::max(worst, bound > 0 ? error / bound : (error > 0 ? 1e9 : 0));
    }
  }
  return worst;
}

/// Tries the case on every table; the largest share of the bound.
double check(Case& c) {
  const Kernels portable = choose_kernels("portable");
  std::vector<Kernels> tables = fast_kernels();
  tables.push_back(portable);
  const std::vector<float> w = unpacked(c.type_, c.rows());
  const bool real = slab_format(c.type_).kind == SlabKind::real;
  std::optional<Terms> terms;
  if (!real) terms.emplace(c, portable);
  double worst = 0;
  for (const Kernels& kernels : tables) {
    INFO(kernels.name);
    const double share = worst_share(c, w, c.run(kernels, 1), terms ? &*terms : nullptr);
    REQUIRE(share <= 1.0);
    worst = std::max(worst, share);
  }
  return worst;
}

/// Activations that are hard to round: see the comments. `columns` of them, in `out`, eight kinds.
void adversarial(std::int64_t kind, std::size_t columns, std::mt19937& random, float* out) {
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  for (std::size_t k = 0; k < columns; ++k) {
    const bool first = k % 32 == 0;
    switch (kind) {
      case 0:  // every product at its largest
        out[k] = 127.0F;
        break;
      case 1:  // half-way levels, all rounded the same way: the fit moves the largest value off its level
        out[k] = first ? 127.0F : 20.4999F;
        break;
      case 2:
        out[k] = first ? -127.0F : 0.5001F;
        break;
      case 3:  // one outlier a block
        out[k] = first ? 1e4F : uniform(random);
        break;
      case 4:  // what becomes zero, beside what just does not
        out[k] = (k / 32 % 2 == 0 ? 0.99e-30F : 1.01e-30F) * uniform(random);
        break;
      case 5:  // sums that cancel
        out[k] = (k % 2 == 0 ? 1.0F : -1.0F) * (1.0F + 1e-3F * uniform(random));
        break;
      case 6:  // blocks of very different size
        out[k] = std::ldexp(uniform(random), static_cast<int>(k / 32 % 40) - 20);
        break;
      default:  // denormals and zeros
        out[k] = k / 32 % 2 == 0 ? 0.0F : 1e-40F * uniform(random);
    }
  }
}

void fill_adversarial(Case& c, std::mt19937& random) {
  const auto columns = static_cast<std::size_t>(c.shape().columns);
  for (std::int64_t i = 0; i < c.count_; ++i) {
    adversarial(i % 8, columns, random, c.in().data() + static_cast<std::size_t>(i) * columns);
  }
}

TEST_CASE("random weights and activations: every result inside the bound") {
  std::mt19937 random(21);
  for (WeightType type : weight_types) {
    for (std::int64_t count : {1, 3, 8, 21}) {
      INFO(describe(type).name << " columns " << count);
      Case c(type, 35, 768, count, random);
      check(c);
    }
  }
}

TEST_CASE("adversarial activations: every result inside the bound") {
  std::mt19937 random(22);
  for (WeightType type : weight_types) {
    for (std::int64_t count : {8, 1}) {
      INFO(describe(type).name << " columns " << count);
      Case c(type, 19, 512, count, random);
      fill_adversarial(c, random);
      check(c);
    }
  }
}

TEST_CASE("adversarial weights: every level and scale at its extremes") {
  std::mt19937 random(23);
  for (WeightType type : weight_types) {
    const WeightTypeInfo& info = describe(type);
    if (info.block_size == 1) continue;
    for (int byte : {0x00, 0x7f, 0x80, 0xff}) {
      for (std::uint16_t scale : {0x7bff, 0x0001, 0x8001, 0xfbff}) {  // 65504 and the smallest, both signs
        INFO(info.name << " bytes " << byte << " scales " << scale);
        std::vector<std::byte> rows(16 * 512 / info.block_size * info.block_bytes, static_cast<std::byte>(byte));
        for (std::size_t b = 0; b < rows.size(); b += info.block_bytes) {
          for (const BlockField& field : layout_of(type).smalls) {
            if (field.bytes == 2) std::memcpy(rows.data() + b + field.offset, &scale, 2);
            if (field.bytes == 1) rows[b + field.offset] = static_cast<std::byte>(scale == 0x7bff ? 190 : 0);
          }
        }
        Case c(type, rows, 16, 512, 8);
        fill_adversarial(c, random);
        check(c);
      }
    }
  }
}

TEST_CASE("real tensors: every result inside the bound") {
  const char* folder = std::getenv("LLMINFER_MODELS");
  std::error_code ignored;
  std::map<WeightType, int> tried;
  std::mt19937 random(24);
  double worst = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder != nullptr ? folder : "", ignored)) {
    if (entry.path().extension() != ".gguf") continue;
    const format::ModelFile file = format::ModelFile::open(ModelSource::file(entry.path()));
    std::map<WeightType, int> of_file;
    for (const format::TensorInfo& tensor : file.tensors()) {
      if (tensor.n_dims < 2 || of_file[tensor.type] == 4) continue;
      INFO(entry.path().filename().string() << " " << tensor.name);
      const auto columns = static_cast<std::int64_t>(tensor.dims[0]);
      const std::int64_t rows = std::min<std::int64_t>(40, static_cast<std::int64_t>(tensor.rows()));
      std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes / tensor.rows()) *
                                   static_cast<std::size_t>(rows));
      file.read(tensor, 0, bytes);
      Case c(tensor.type, bytes, rows, columns, 9);
      fill_adversarial(c, random);
      // A model's activations: most small, some many times as large.
      std::vector<float> typical = random_floats(static_cast<std::size_t>(columns), random);
      for (float& x : typical) x = x * x * x;
      std::copy(typical.begin(), typical.end(), c.in().end() - columns);
      worst = std::max(worst, check(c));
      ++of_file[tensor.type];
      ++tried[tensor.type];
    }
  }
  if (tried.empty()) {
    WARN("skipped: no models in LLMINFER_MODELS");
    return;
  }
  REQUIRE(worst > 0.05);  // the bound is not idle
  for (const auto& [type, count] : tried) WARN(describe(type).name << ": " << count << " tensors");
  WARN("largest error: " << worst << " of the bound");
}

}  // namespace
}  // namespace llminfer::cpu::test
