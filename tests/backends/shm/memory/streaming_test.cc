#include "backends/shm/memory/streaming.h"

#include <doctest/doctest.h>

namespace ronde::shm {
namespace {

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
