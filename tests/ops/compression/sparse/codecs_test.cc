// Momentum correction and clipping, against the formulas written out for one element.
#include "ops/compression/sparse/codecs.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace ronde {

TEST_CASE("Momentum is added before anything is chosen") {
  std::vector<float> velocity{1.0F}, values{2.0F};
  correct_momentum(0.5, false, velocity, values);
  CHECK(velocity[0] == 2.5F);
  CHECK(values[0] == 2.5F);
  velocity = {1.0F}, values = {2.0F};
  correct_momentum(0.5, true, velocity, values);
  CHECK(velocity[0] == 1.5F);
  CHECK(values[0] == 3.5F);
}

TEST_CASE("A rank's gradient is clipped to its share of the norm") {
  std::vector<float> values{3.0F, 4.0F};
  clip_locally(5.0, 4, values);  // 5 / sqrt(4)
  CHECK(values[0] == doctest::Approx(1.5));
  CHECK(values[1] == doctest::Approx(2.0));
  clip_locally(100.0, 4, values);
  CHECK(values[1] == doctest::Approx(2.0));
}

TEST_CASE("Clipping launders no infinity") {
  std::vector<float> values{std::numeric_limits<float>::infinity(), 1.0F};
  clip_locally(1.0, 2, values);
  CHECK(std::isinf(values[0]));
  CHECK(values[1] == 1.0F);
}

}  // namespace ronde
