// Memory of a device that grows.
#include <doctest/doctest.h>

#include <memory>
#include <new>

#include "backends/cuda/device.h"
#include "ops/memory/memory.h"
#include "tests/support/cuda_fake/cudart_fake.h"

namespace ronde::test {

TEST_CASE("growing memory: it stays where it is, and is pinned where the device has no room") {
  DeviceCopyEngine copies(std::make_shared<cuda::CudaDevice>(0), nullptr);
  GrowingMemory memory(copies);
  std::byte* const small = memory.at_least(100);
  CHECK(small != nullptr);
  CHECK(memory.at_least(50) == small);
  cuda_fake::fail_next("cudaMalloc", cudaErrorMemoryAllocation);
  std::byte* const large = memory.at_least(1000);
  CHECK(large != nullptr);
  CHECK(memory.at_least(1000) == large);
  cuda_fake::fail_next("cudaMalloc", cudaErrorMemoryAllocation);
  cuda_fake::fail_next("cudaMallocHost", cudaErrorMemoryAllocation);
  CHECK_THROWS_AS(memory.at_least(2000), std::bad_alloc);
  CHECK(memory.at_least(10) != nullptr);  // once there is room again
}

}  // namespace ronde::test
