// Lives of simulated jobs, a few of those that `ronde_lifetimes` lives by the million.
#include "tests/core/protocol/lifetime.h"

#include <doctest/doctest.h>

#include "tests/support/volume.h"

namespace ronde {

TEST_CASE("Lifetime: drawn jobs of up to 16 ranks keep the rules") {
  for (std::uint64_t seed = 1; seed <= test::repetitions(150, 4000); ++seed) {
    const Lifetime life = draw_lifetime(seed, false);
    CAPTURE(describe(life));
    CHECK(live(life).empty());
  }
}

TEST_CASE("Lifetime: the same seed gives the same life; they differ in all that may go wrong") {
  CHECK(describe(draw_lifetime(5, false)) == describe(draw_lifetime(5, false)));
  int deaths = 0;
  int joins = 0;
  int doubles = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const Lifetime life = draw_lifetime(seed, false);
    CHECK(life.members <= 16);
    deaths += life.death_after ? 1 : 0;
    joins += life.joins ? 1 : 0;
    doubles += life.doubles ? 1 : 0;
  }
  CHECK(deaths > 80);
  CHECK(joins > 20);
  CHECK(doubles > 50);
  CHECK(draw_lifetime(5, true).members >= 1024);
}

}  // namespace ronde
