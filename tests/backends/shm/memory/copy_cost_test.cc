#include "backends/shm/memory/copy_cost.h"

#include <doctest/doctest.h>

#include <cmath>

namespace ronde::shm {
namespace {

TEST_CASE("copy cost: a copy by the kernel costs something, and is measured once") {
  const double cost = kernel_copy_cost();
  CHECK(cost > 0.1);  // no kernel copies ten times as fast as memcpy
  CHECK((std::isinf(cost) || cost < 1000));
  CHECK(kernel_copy_cost() == cost);
}

}  // namespace
}  // namespace ronde::shm
