#include "backends/shm/memory/costs.h"

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

TEST_CASE("what fits into any cache is not streamed, and what fits into none is") {
  CHECK_FALSE(outgrows_caches(2, 1024));
  CHECK(outgrows_caches(2, std::size_t{1} << 40));
}

TEST_CASE("the tensors of all ranks count together") {
  std::size_t bytes = 1;
  while (!outgrows_caches(8, bytes)) bytes *= 2;
  CHECK_FALSE(outgrows_caches(4, bytes));
  CHECK(outgrows_caches(4, 2 * bytes));
}

}  // namespace
}  // namespace ronde::shm
