// Compression's kernels on a real GPU: the frames of the CPU's codecs, and how fast.
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <vector>

#include "backends/cuda/codec_kernels.h"
#include "tests/support/encoded_values.h"

namespace ronde::test {
namespace {

/// Device memory with a vector's values.
template <typename T>
std::shared_ptr<T> upload(const std::vector<T>& values) {
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, values.size() * sizeof(T)) == cudaSuccess);
  REQUIRE(cudaMemcpy(memory, values.data(), values.size() * sizeof(T), cudaMemcpyDefault) ==
          cudaSuccess);
  return {static_cast<T*>(memory), [](T* freed) { (void)cudaFree(freed); }};
}

template <typename T>
std::vector<T> download(const std::shared_ptr<T>& memory, std::size_t count) {
  std::vector<T> values(count);
  REQUIRE(cudaMemcpy(values.data(), memory.get(), count * sizeof(T), cudaMemcpyDefault) ==
          cudaSuccess);
  return values;
}

/// Milliseconds of one of 20 launches.
float milliseconds(const cuda::EncodeWork& work) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  REQUIRE(cudaEventCreate(&begin) == cudaSuccess);
  REQUIRE(cudaEventCreate(&end) == cudaSuccess);
  REQUIRE(cuda::launch_encode(work, nullptr) == cudaSuccess);
  REQUIRE(cudaEventRecord(begin, nullptr) == cudaSuccess);
  for (int i = 0; i < 20; ++i) REQUIRE(cuda::launch_encode(work, nullptr) == cudaSuccess);
  REQUIRE(cudaEventRecord(end, nullptr) == cudaSuccess);
  REQUIRE(cudaEventSynchronize(end) == cudaSuccess);
  float all = 0;
  REQUIRE(cudaEventElapsedTime(&all, begin, end) == cudaSuccess);
  (void)cudaEventDestroy(begin);
  (void)cudaEventDestroy(end);
  return all / 20;
}

}  // namespace

TEST_CASE("gpu: compression's frames, losses and decoded values have the bits of the CPU's") {
  constexpr std::size_t kCount = 1'000'003;
  for (const SharedFormat& shared : kSharedFormats) {
    CAPTURE(shared.spec);
    const CompressionSpec spec = parse_compression(shared.spec).value();
    const auto codec = make_codec(spec);
    const std::vector<float> values = blocks_of_values(kCount);
    std::vector<std::byte> frame(codec->encoded_bytes(kCount));
    std::vector<float> lost(kCount);
    codec->encode({.values = values, .frame = frame.data(), .lost = lost.data(), .key = 9});
    const auto given = upload(values);
    const auto residual = upload(std::vector<float>(kCount));
    const auto made = upload(std::vector<std::uint8_t>(frame.size()));
    cuda::EncodeWork work = encode_work(shared, spec, 9, 0);
    work.values = given.get();
    work.residual = residual.get();
    work.frame = made.get();
    work.count = kCount;
    REQUIRE(cuda::launch_encode(work, nullptr) == cudaSuccess);
    const auto bytes = download(made, frame.size());
    CHECK(std::memcmp(bytes.data(), frame.data(), frame.size()) == 0);
    CHECK(std::memcmp(download(residual, kCount).data(), lost.data(), kCount * 4) == 0);
    std::vector<float> decoded(kCount);
    REQUIRE(codec->decode(frame, decoded).ok());
    REQUIRE(cuda::launch_decode({.format = shared.format,
                                 .frame = made.get(),
                                 .out = residual.get(),
                                 .count = kCount,
                                 .block = work.block},
                                nullptr) == cudaSuccess);
    CHECK(std::memcmp(download(residual, kCount).data(), decoded.data(), kCount * 4) == 0);
  }
}

TEST_CASE("figure: int8 with error feedback against the device's bandwidth") {
  constexpr std::size_t kCount = 25'000'000;
  const auto values = upload(std::vector<float>(kCount, 0.5F));
  const auto residual = upload(std::vector<float>(kCount));
  const auto frame = upload(std::vector<std::uint8_t>(kCount / 512 * 516 + 1024));
  const float ms = milliseconds({.format = cuda::FrameFormat::kInt8,
                                 .values = values.get(),
                                 .residual = residual.get(),
                                 .frame = frame.get(),
                                 .count = kCount,
                                 .block = 512});
  // Values and residual in, residual and codes out.
  const double bytes = static_cast<double>(kCount) * 13;
  fmt::print(
      "{{\"figure\": \"int8 encode with error feedback\", \"ms\": {:.3f}, "
      "\"gb_per_s\": {:.0f}}}\n",
      ms, bytes / ms * 1e-6);
}

}  // namespace ronde::test
