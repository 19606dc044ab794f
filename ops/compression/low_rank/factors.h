// The arithmetic of PowerSGD. A matrix has `rows` rows of `columns` elements. Its factors P (rows x
// rank) and Q (columns x rank) are stored column by column: column k of P begins at k * rows.
// Source: Vogels et al., "PowerSGD", NeurIPS 2019.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ronde {

struct LowRankShape {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t rank = 1;

  /// True if the factors have at most half as many elements.
  [[nodiscard]] constexpr bool saves() const noexcept {
    return 2 * rank * (rows + columns) <= rows * columns;
  }
};

/// P = M Q.
void project(const LowRankShape& shape, const float* m, const float* q, float* p);

/// Q = M^T P.
void project_back(const LowRankShape& shape, const float* m, const float* p, float* q);

/// Makes the columns of P orthonormal, from the first on. Columns that depend on earlier ones
/// become zero. NaN and infinity become NaN. The same bits on every CPU.
void orthogonalise(const LowRankShape& shape, float* p);

/// One row of P Q^T. The same bits on every CPU.
void expand_row(const LowRankShape& shape, const float* p, std::size_t row, const float* q,
                float* out);

/// values -= a row of P Q^T.
void subtract_row(const LowRankShape& shape, const float* p, std::size_t row, const float* q,
                  float* values);

/// Fills columns of zeros with numbers between -1 and 1 that follow from the seed. A power
/// iteration begins with them.
void seed_columns(const LowRankShape& shape, std::uint64_t seed, float* q);

}  // namespace ronde
