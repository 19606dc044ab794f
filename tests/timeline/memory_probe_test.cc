#include "timeline/memory_probe.h"

#include <doctest/doctest.h>

namespace ronde {

TEST_CASE("memory probe: a copy takes some time, and no machine does a terabyte a second") {
  const double gbps = measure_copy_gbps();
  CHECK(gbps > 0.01);
  CHECK(gbps < 1000);
}

}  // namespace ronde
