// The arithmetic of PowerSGD, against sums written out in double.
#include "ops/compression/low_rank/factors.h"

#include <cmath>
#include <limits>

#include "tests/ops/compression/codecs.h"

namespace ronde::test {
namespace {

double dot(const float* a, const float* b, std::size_t count) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

}  // namespace

TEST_CASE("Products with P and Q are those of the formulas, on every instruction set") {
  on_each_target([] {
    for (const LowRankShape shape : {LowRankShape{7, 33, 1}, LowRankShape{21, 40, 5}}) {
      const auto m = gradients(shape.rows * shape.columns);
      const auto q = gradients(shape.columns * shape.rank, 2);
      std::vector<float> p(shape.rows * shape.rank), back(q.size());
      project(shape, m.data(), q.data(), p.data());
      project_back(shape, m.data(), p.data(), back.data());
      for (std::size_t k = 0; k < shape.rank; ++k) {
        const float* column = q.data() + k * shape.columns;
        for (std::size_t i = 0; i < shape.rows; ++i) {
          const double exact = dot(m.data() + i * shape.columns, column, shape.columns);
          REQUIRE(p[k * shape.rows + i] == doctest::Approx(exact).epsilon(1e-4).scale(10));
        }
        for (std::size_t j = 0; j < shape.columns; ++j) {
          double exact = 0;
          for (std::size_t i = 0; i < shape.rows; ++i) {
            exact += static_cast<double>(m[i * shape.columns + j]) * p[k * shape.rows + i];
          }
          REQUIRE(back[k * shape.columns + j] == doctest::Approx(exact).epsilon(1e-4).scale(100));
        }
      }
      std::vector<float> row(shape.columns), rest(shape.columns, 1.0F);
      expand_row(shape, p.data(), 3, q.data(), row.data());
      subtract_row(shape, p.data(), 3, q.data(), rest.data());
      for (std::size_t j = 0; j < shape.columns; ++j) {
        double exact = 0;
        for (std::size_t k = 0; k < shape.rank; ++k) {
          exact += static_cast<double>(p[k * shape.rows + 3]) * q[k * shape.columns + j];
        }
        REQUIRE(row[j] == doctest::Approx(exact).epsilon(1e-4).scale(10));
        REQUIRE(rest[j] == 1.0F - row[j]);
      }
    }
  });
}

TEST_CASE("Columns become orthonormal; those that depend on others become zero") {
  const LowRankShape shape{200, 1, 4};
  auto p = gradients(800);
  std::copy_n(p.begin(), 200, p.begin() + 400);  // the third is the first
  orthogonalise(shape, p.data());
  for (std::size_t a = 0; a < 4; ++a) {
    for (std::size_t b = 0; b <= a; ++b) {
      const double wanted = a == b && a != 2 ? 1.0 : 0.0;
      CHECK(std::abs(dot(p.data() + a * 200, p.data() + b * 200, 200) - wanted) < 1e-5);
    }
  }
  std::vector<float> zeros(800);
  orthogonalise(shape, zeros.data());
  CHECK(zeros == std::vector<float>(800));
}

TEST_CASE("Columns that hold NaN are not made numbers") {
  auto p = gradients(20);
  p[3] = std::numeric_limits<float>::quiet_NaN();
  orthogonalise({10, 1, 2}, p.data());
  for (const float value : p) CHECK(std::isnan(value));
}

TEST_CASE("Only empty columns are seeded, alike from equal seeds") {
  std::vector<float> a(12), b(12);
  a[1] = b[1] = 5.0F;
  seed_columns({3, 4, 3}, 7, a.data());
  seed_columns({3, 4, 3}, 7, b.data());
  CHECK(a == b);
  CHECK(a[0] == 0.0F);
  CHECK(a[1] == 5.0F);
  CHECK(a[4] != 0.0F);
  CHECK(a[4] != a[8]);
}

TEST_CASE("Only matrices whose factors are half their size or less are worth it") {
  CHECK(LowRankShape{2560, 2560, 4}.saves());
  CHECK(LowRankShape{16, 16, 4}.saves());
  CHECK_FALSE(LowRankShape{15, 16, 4}.saves());
  CHECK_FALSE(LowRankShape{1, 100'000, 1}.saves());
  CHECK_FALSE(LowRankShape{0, 100, 1}.saves());
}

}  // namespace ronde::test
