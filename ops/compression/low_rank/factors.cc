#include "ops/compression/low_rank/factors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ops/compression/registry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/compression/low_rank/factors.cc"
#include <hwy/foreach_target.h>

#include "ops/compression/codecs/group_inl.h"

HWY_BEFORE_NAMESPACE();
namespace ronde::compression::HWY_NAMESPACE {

/// Dot products of a row with several columns of Q: the row is read once for all.
template <std::size_t kColumns>
HWY_INLINE void dots(const float* row, const float* q, std::size_t count, float* sums) {
  const D d;
  V sum[kColumns];
  for (V& one : sum) one = hn::Zero(d);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    const V values = load_unaligned(d, row + i);
    for (std::size_t k = 0; k < kColumns; ++k) {
      sum[k] = hn::MulAdd(values, load_unaligned(d, q + k * count + i), sum[k]);
    }
  }
  for (std::size_t k = 0; k < kColumns; ++k) {
    sums[k] = hn::GetLane(hn::SumOfLanes(d, sum[k]));
    for (std::size_t j = i; j < count; ++j) sums[k] += row[j] * q[k * count + j];
  }
}

void project_row_here(const float* row, const float* q, std::size_t count, std::size_t rank,
                      float* sums) {
  std::size_t k = 0;
  for (; k + 4 <= rank; k += 4) dots<4>(row, q + k * count, count, sums + k);
  for (; k < rank; ++k) dots<1>(row, q + k * count, count, sums + k);
}

/// to += sum over four rows of factor * row.
void add_rows_here(const float* rows, std::size_t count, const float* factors, float* to) {
  const D d;
  const V f[4] = {hn::Set(d, factors[0]), hn::Set(d, factors[1]), hn::Set(d, factors[2]),
                  hn::Set(d, factors[3])};
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    V sum = load_unaligned(d, to + i);
    for (std::size_t r = 0; r < 4; ++r) {
      sum = hn::MulAdd(f[r], load_unaligned(d, rows + r * count + i), sum);
    }
    store_unaligned(sum, d, to + i);
  }
  for (; i < count; ++i) {
    for (std::size_t r = 0; r < 4; ++r) to[i] += factors[r] * rows[r * count + i];
  }
}

/// to = (or -=) sum over k of factors[k] * q[k], in this order and without fused operations.
void combine_here(const float* factors, std::size_t rank, const float* q, std::size_t count,
                  bool subtract, float* to) {
  const D d;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    V sum = hn::Mul(hn::Set(d, factors[0]), load_unaligned(d, q + i));
    for (std::size_t k = 1; k < rank; ++k) {
      sum = hn::Add(sum, hn::Mul(hn::Set(d, factors[k]), load_unaligned(d, q + k * count + i)));
    }
    if (subtract) sum = hn::Sub(load_unaligned(d, to + i), sum);
    store_unaligned(sum, d, to + i);
  }
  for (; i < count; ++i) {
    float sum = factors[0] * q[i];
    for (std::size_t k = 1; k < rank; ++k) sum += factors[k] * q[k * count + i];
    to[i] = subtract ? to[i] - sum : sum;
  }
}

}  // namespace ronde::compression::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ronde {
namespace compression {
HWY_EXPORT(project_row_here);
HWY_EXPORT(add_rows_here);
HWY_EXPORT(combine_here);
}  // namespace compression
namespace {

constexpr CodecParameter kRank{"rank", "rank", "Columns of each factor",
                               WholeNumbers{&CompressionSpec::rank, 1, kMaxRank}};
constexpr std::array kPowersgdParameters{parameters::kWarmup, kRank, parameters::kSeed,
                                         parameters::kErrorFeedback, parameters::kResidual};

double dot(const float* a, const float* b, std::size_t count) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

/// Subtracts from a column its projection on a unit vector.
void remove(const float* direction, std::size_t count, float* column) {
  const auto share = static_cast<float>(dot(direction, column, count));
  for (std::size_t i = 0; i < count; ++i) column[i] -= share * direction[i];
}

void combine(const LowRankShape& shape, const float* p, std::size_t row, const float* q,
             bool subtract, float* to) {
  using namespace compression;
  float factors[kMaxRank];
  for (std::size_t k = 0; k < shape.rank; ++k) factors[k] = p[k * shape.rows + row];
  HWY_DYNAMIC_DISPATCH(combine_here)(factors, shape.rank, q, shape.columns, subtract, to);
}

}  // namespace

void project(const LowRankShape& shape, const float* m, const float* q, float* p) {
  using namespace compression;
  float sums[kMaxRank];
  for (std::size_t row = 0; row < shape.rows; ++row) {
    HWY_DYNAMIC_DISPATCH(project_row_here)
    (m + row * shape.columns, q, shape.columns, shape.rank, sums);
    for (std::size_t k = 0; k < shape.rank; ++k) p[k * shape.rows + row] = sums[k];
  }
}

void project_back(const LowRankShape& shape, const float* m, const float* p, float* q) {
  using namespace compression;
  std::fill_n(q, shape.columns * shape.rank, 0.0F);
  std::size_t row = 0;
  for (; row + 4 <= shape.rows; row += 4) {
    for (std::size_t k = 0; k < shape.rank; ++k) {
      HWY_DYNAMIC_DISPATCH(add_rows_here)
      (m + row * shape.columns, shape.columns, p + k * shape.rows + row, q + k * shape.columns);
    }
  }
  for (; row < shape.rows; ++row) {
    for (std::size_t i = 0; i < shape.columns * shape.rank; ++i) {
      const std::size_t k = i / shape.columns;
      q[i] += p[k * shape.rows + row] * m[row * shape.columns + i % shape.columns];
    }
  }
}

void orthogonalise(const LowRankShape& shape, float* p) {
  constexpr double kDependent =
      1e-5;  // relative norm that fp32 rounding leaves of a dependent column
  for (std::size_t k = 0; k < shape.rank; ++k) {
    float* column = p + k * shape.rows;
    const double whole = std::sqrt(dot(column, column, shape.rows));
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t l = 0; l < k; ++l) remove(p + l * shape.rows, shape.rows, column);
    }
    const double norm = std::sqrt(dot(column, column, shape.rows));
    const bool dependent = std::isfinite(whole) && norm <= kDependent * whole;
    const double scale =
        std::isfinite(whole) ? 1.0 / norm : std::numeric_limits<double>::quiet_NaN();
    for (std::size_t i = 0; i < shape.rows; ++i) {
      column[i] = dependent ? 0.0F : static_cast<float>(column[i] * scale);
    }
  }
}

void expand_row(const LowRankShape& shape, const float* p, std::size_t row, const float* q,
                float* out) {
  combine(shape, p, row, q, false, out);
}

void subtract_row(const LowRankShape& shape, const float* p, std::size_t row, const float* q,
                  float* values) {
  combine(shape, p, row, q, true, values);
}

void seed_columns(const LowRankShape& shape, std::uint64_t seed, float* q) {
  std::uint64_t random = seed * 0x9e3779b97f4a7c15ULL + 1;
  for (std::size_t k = 0; k < shape.rank; ++k) {
    float* column = q + k * shape.columns;
    const bool empty =
        std::all_of(column, column + shape.columns, [](float v) { return v == 0.0F; });
    for (std::size_t i = 0; i < shape.columns; ++i) {
      random = random * 6364136223846793005ULL + 1442695040888963407ULL;
      if (empty) column[i] = static_cast<float>(random >> 40) * 0x1p-23F - 1.0F;
    }
  }
}

constinit const CodecRow kPowersgdCodec{
    .name = "powersgd",
    .title = "PowerSGD",
    .summary =
        "Matrices as products of two thin ones; tensors of one dimension and small ones "
        "travel in fp32",
    .defaults = {.kind = CodecKind::kPowersgd, .rank = 4},
    .parameters = kPowersgdParameters,
    .payload = Payload::kFactors,
    .sends_little = true,
    .training_warmup = 200,
    .rounds = 2,
    .wire_share = [](const CompressionSpec&, const WireLoad& load) { return load.low_rank; },
    .auto_place = AutoPlace{Accuracy::kAggressive, 4},
};

}  // namespace ronde
#endif
