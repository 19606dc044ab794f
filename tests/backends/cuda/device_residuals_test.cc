// Residuals of compression in device memory.
#include "ops/device/device_residuals.h"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "backends/cuda/device.h"
#include "tests/support/cuda_fake/cudart_fake.h"

namespace ronde::test {
namespace {

/// Tensors of 3, 0 and 2 elements; the last has no residual.
struct LeftOver {
  std::shared_ptr<cuda::CudaDevice> device = std::make_shared<cuda::CudaDevice>(0);
  DeviceStream stream = device->open_stream().value();
  AbortToken abort;
  DeviceLaunchContext context{.stream = stream, .abort = abort};
  Scheme scheme{*parse_compression("int8")};
  std::vector<float> out = std::vector<float>(5);
  std::vector<Segment> segments;
  Work work;
  DeviceResiduals residuals{device};
  std::vector<float> left{1, 2, 3, 4, 5};
  std::vector<std::uint32_t> flags{7, 7, 7};

  LeftOver() {
    auto* const at = reinterpret_cast<std::byte*>(out.data());
    segments = {{at, at, 12}, {at, at, 0}, {at + 12, at + 12, 8}};
    work.segments = segments;
    work.reduction.dtype = DType::kFloat32;
  }
  void finish() const { cuda_fake::finish(static_cast<cudaStream_t>(stream)); }
  static CompressedTensor tensor(std::shared_ptr<Residual> residual) {
    CompressedTensor made;
    made.residual = std::move(residual);
    return made;
  }
  Status find(CompressedWork& compression) {
    RONDE_RETURN_IF_ERROR(residuals.find(compression.tensors(), context));
    return residuals.place(left.data(), reinterpret_cast<std::byte*>(flags.data()), context);
  }
};

}  // namespace

TEST_CASE("device residuals: what is left over becomes the residual, unless its flag is set") {
  LeftOver on;
  const auto kept = std::make_shared<Residual>(3);
  CompressedWork compression(
      on.scheme, {LeftOver::tensor(kept), LeftOver::tensor(std::make_shared<Residual>(0)),
                  LeftOver::tensor(nullptr)});
  REQUIRE(on.find(compression).ok());
  CHECK(on.residuals.keeps());
  CHECK(on.residuals.of(0) == kept->on_device(*on.device, on.stream));
  CHECK(on.residuals.of(2) == nullptr);
  CHECK(on.residuals.flag(2) == nullptr);
  CHECK(on.residuals.left_over(on.work) ==
        std::vector<const float*>{on.left.data(), nullptr, nullptr});
  on.finish();
  CHECK(on.flags == std::vector<std::uint32_t>(3, 0));
  on.flags[0] = 1;
  REQUIRE(on.residuals.commit(on.work, on.context).ok());
  CHECK(kept->values().value() == std::vector<float>(3, 0.0F));
  on.flags[0] = 0;
  REQUIRE(on.residuals.commit(on.work, on.context).ok());
  CHECK(kept->values().value() == std::vector<float>{1, 2, 3});
}

TEST_CASE("device residuals: a tensor without a result keeps what it had, and bf16 stays away") {
  LeftOver on;
  const auto kept = std::make_shared<Residual>(3);
  const auto narrow = std::make_shared<Residual>(2, ResidualFormat::kBf16);
  CompressedWork compression(
      on.scheme, {LeftOver::tensor(kept), LeftOver::tensor(nullptr), LeftOver::tensor(narrow)});
  REQUIRE(on.find(compression).ok());
  CHECK(on.residuals.of(2) == nullptr);
  on.segments[0].out = nullptr;
  REQUIRE(on.residuals.commit(on.work, on.context).ok());
  CHECK(kept->values().value() == std::vector<float>(3, 0.0F));
}

TEST_CASE("device residuals: where nothing is kept there are no flags, and nothing to commit") {
  LeftOver on;
  CompressedWork compression(on.scheme, std::vector<CompressedTensor>(3));
  REQUIRE(on.find(compression).ok());
  CHECK_FALSE(on.residuals.keeps());
  CHECK(on.residuals.flag_bytes() == 0);
  const int before = cuda_fake::launches();
  CHECK(on.residuals.commit(on.work, on.context).ok());
  CHECK(cuda_fake::launches() == before);
}

}  // namespace ronde::test
