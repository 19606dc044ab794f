// How lists come to their places on the device, run thread by thread on the CPU, against what a
// loop over the list gives.
#include <doctest/doctest.h>

#include <bit>
#include <limits>
#include <vector>

#include "backends/cuda/kernels.h"
#include "tests/support/cuda_fake/cudart_fake.h"
#include "tests/support/plain_kernels.h"

namespace ronde::test {
namespace {

// Around a tile and beyond it.
constexpr std::size_t kCounts[] = {1, 255, 2047, 2048, 2049, 5000};

/// A list of every third element of a vector, the last first.
struct List {
  explicit List(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      indices.push_back(static_cast<std::uint32_t>(3 * (count - 1 - i)));
      values.push_back(static_cast<float>(i) * 0.37F - 100.0F);
    }
  }
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
};

/// Runs it for several lists in one launch.
void scatter(const std::vector<ScatterRun>& runs, DType type, bool adds) {
  REQUIRE(cuda::launch_scatter({.to = type, .adds = adds, .runs = runs}, nullptr) == cudaSuccess);
  cuda_fake::finish(nullptr);
}

ScatterRun run_of(const List& list, void* out, std::uint32_t* flag = nullptr) {
  return {list.indices.data(), list.values.data(), out, flag, list.values.size()};
}

}  // namespace

TEST_CASE("scatter on the device: each element comes to its place, rounded as the CPU's casts do") {
  for (const std::size_t count : kCounts) {
    const List list(count);
    for (const DType type : {DType::kFloat32, DType::kFloat16, DType::kBfloat16, DType::kFloat64}) {
      const std::size_t size = size_of(type);
      std::vector<std::byte> cast(count * size);
      plain_kernels()->cast(DType::kFloat32, list.values.data(), type, cast.data(), count);
      std::vector<std::byte> wanted(3 * count * size, std::byte{0x11});
      for (std::size_t i = 0; i < count; ++i) {
        std::copy_n(&cast[i * size], size, &wanted[list.indices[i] * size]);
      }
      std::vector<std::byte> out(3 * count * size, std::byte{0x11});
      scatter({run_of(list, out.data())}, type, false);
      CHECK(out == wanted);
    }
  }
}

TEST_CASE("scatter on the device: sums are added to what is there") {
  const List list(3000);
  std::vector<float> there(9000);
  for (std::size_t i = 0; i < there.size(); ++i) there[i] = static_cast<float>(i) * 0.1F;
  std::vector<float> wanted = there;
  for (std::size_t i = 0; i < 3000; ++i) wanted[list.indices[i]] += list.values[i];
  scatter({run_of(list, there.data())}, DType::kFloat32, true);
  CHECK(there == wanted);
}

TEST_CASE("scatter on the device: several lists in one launch keep apart, and so do their flags") {
  List odd(2100);
  odd.values[2099] = std::numeric_limits<float>::quiet_NaN();
  List large(7);
  large.values[3] = 1e30F;  // infinite in 16 bits alone
  const List plain(70);
  std::uint32_t flags[3] = {};
  std::vector<std::vector<std::uint16_t>> outs(3, std::vector<std::uint16_t>(6300));
  scatter({run_of(odd, outs[0].data(), &flags[0]), run_of(large, outs[1].data(), &flags[1]),
           run_of(plain, outs[2].data(), &flags[2])},
          DType::kFloat16, false);
  CHECK(flags[0] == 1);
  CHECK(flags[1] == 1);
  CHECK(flags[2] == 0);
  std::vector<float> wide(6300);
  scatter({run_of(large, wide.data(), &flags[2])}, DType::kFloat32, false);
  CHECK(flags[2] == 0);
  CHECK(wide[9] == 1e30F);
}

}  // namespace ronde::test
