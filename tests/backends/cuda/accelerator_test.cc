#include <doctest/doctest.h>

#include "backends/cuda/factory.h"
#include "tests/support/cuda_fake/cudart_fake.h"

namespace ronde::test {
namespace {

constexpr const char* kAnyLibrary = "libc.so.6";  // plays the driver, which is only looked for

}  // namespace

TEST_CASE("cuda: without a driver it says that there is none") {
  const auto accelerator = create_cuda_accelerator("libcuda_of_nobody.so.1");
  const Status status = accelerator->count().status();
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.message() == "no NVIDIA driver: libcuda_of_nobody.so.1 not found");
  CHECK(accelerator->open(0).status().message() == status.message());
}

TEST_CASE("cuda: a driver that is too old is named with both versions") {
  const auto accelerator = create_cuda_accelerator(kAnyLibrary);
  cuda_fake::fail_next("cudaGetDeviceCount", cudaErrorInsufficientDriver);
  const std::string message = accelerator->count().status().message();
  CHECK(message.rfind("the NVIDIA driver is too old: it knows CUDA 11.4, this build is for CUDA ",
                      0) == 0);
}

TEST_CASE("cuda: no visible device is an error that says so") {
  const auto accelerator = create_cuda_accelerator(kAnyLibrary);
  cuda_fake::fail_next("cudaGetDeviceCount", cudaErrorNoDevice);
  CHECK(accelerator->count().status().message().rfind("no CUDA device is visible", 0) == 0);
  cuda_fake::set_device_count(0);
  CHECK(accelerator->count().status().message().rfind("no CUDA device is visible", 0) == 0);
  cuda_fake::set_device_count(2);
}

TEST_CASE("cuda: a device is opened once, and one that is not there is an error") {
  const auto accelerator = create_cuda_accelerator(kAnyLibrary);
  const auto device = accelerator->open(1).value();
  CHECK(device->index() == 1);
  CHECK(accelerator->open(1).value() == device);
  const Status status = accelerator->open(2).status();
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.message() == "there is no device cuda:2; allowed: 0 to 1");
  CHECK(accelerator->describe(0).value() == "fake, 2 GiB, sm_90");
}

}  // namespace ronde::test
