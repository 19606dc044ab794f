// Launches of compression's kernels: how many, and what happens where they cannot be made.

#include <doctest/doctest.h>

#include <vector>

#include "backends/cuda/device.h"
#include "ops/compression/codec.h"
#include "tests/support/cuda_fake/cudart_fake.h"
#include "tests/support/plain_kernels.h"

namespace ronde::test {
namespace {

/// As many runs of unlike lengths, in one block of memory.
struct Runs {
  explicit Runs(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) values.insert(values.end(), i % 70, 0.25F);
    frames.resize(2 * values.size());
    std::size_t at = 0;
    for (std::size_t i = 0; i < count; ++i) {
      encoded.push_back({.values = &values[at], .frame = &frames[2 * at], .count = i % 70});
      decoded.push_back({.frame = &frames[2 * at], .out = &values[at], .count = i % 70});
      at += i % 70;
    }
  }
  std::vector<float> values = {};
  std::vector<std::byte> frames = {};
  std::vector<EncodeRun> encoded = {};
  std::vector<DecodeRun> decoded = {};
};

struct Codecs {
  cuda::CudaDevice device{0};
  DeviceStream stream = device.open_stream().value();
  DeviceCodecs& codecs = *device.codecs();
};

constexpr FrameCode kCode{FrameFormat::kFp16, false, 64};

}  // namespace

TEST_CASE("device codecs: a thousand runs take three launches, and two back") {
  Codecs on;
  Runs runs(1000);
  const int before = cuda_fake::launches();
  REQUIRE(on.codecs.encode({.code = kCode, .factor = 2, .runs = runs.encoded}, on.stream).ok());
  CHECK(cuda_fake::launches() == before + 3);  // those without elements take no room
  REQUIRE(on.codecs.decode({.code = kCode, .runs = runs.decoded}, on.stream).ok());
  CHECK(cuda_fake::launches() == before + 5);
  cuda_fake::finish(static_cast<cudaStream_t>(on.stream));
  CHECK(runs.values == std::vector<float>(runs.values.size(), 0.5F));
}

TEST_CASE("device codecs: hundreds of vectors to choose from, and of lists, take few launches") {
  constexpr std::size_t kVectors = 700;
  Codecs on;
  const std::size_t room = on.codecs.select_scratch(100);
  std::vector<std::uint64_t> scratch(kVectors * room / 8);
  std::vector<float> values(100 * kVectors), left(values.size()), chosen(kVectors);
  std::vector<std::uint32_t> indices(kVectors), found(kVectors);
  std::vector<SelectRun> runs;
  std::vector<ScatterRun> back;
  for (std::size_t i = 0; i < kVectors; ++i) {
    values[100 * i + i % 100] = 2.0F;
    runs.push_back({.values = &values[100 * i],
                    .left = &left[100 * i],
                    .indices = &indices[i],
                    .chosen = &chosen[i],
                    .found = &found[i],
                    .scratch = reinterpret_cast<std::byte*>(scratch.data()) + i * room,
                    .factor = 0.5,
                    .count = 100,
                    .most = 1});
    back.push_back(
        {.indices = &indices[i], .values = &chosen[i], .out = &left[100 * i], .count = 1});
  }
  const int before = cuda_fake::launches();
  REQUIRE(on.codecs.select({.runs = runs}, on.stream).ok());
  CHECK(cuda_fake::launches() == before + 3 * 10);
  REQUIRE(on.codecs.scatter({.runs = back}, on.stream).ok());
  CHECK(cuda_fake::launches() == before + 3 * 10 + 2);
  cuda_fake::finish(static_cast<cudaStream_t>(on.stream));
  for (float& value : values) value *= 0.5F;
  CHECK(found == std::vector<std::uint32_t>(kVectors, 1));
  CHECK(left == values);
}

TEST_CASE("device codecs: runs without elements are no launch") {
  Codecs on;
  const EncodeRun none;
  const SelectRun nothing;
  const ScatterRun nobody;
  const int before = cuda_fake::launches();
  CHECK(on.codecs.encode({.code = kCode, .runs = {&none, 1}}, on.stream).ok());
  CHECK(on.codecs.commit({}, on.stream).ok());
  CHECK(on.codecs.select({.runs = {&nothing, 1}}, on.stream).ok());
  CHECK(on.codecs.scatter({.runs = {&nobody, 1}}, on.stream).ok());
  CHECK(cuda_fake::launches() == before);
}

TEST_CASE(
    "device codecs: a type without kernels, and a launch that fails, are errors that say so") {
  Codecs on;
  Runs runs(70);
  const Status integers =
      on.codecs.encode({.code = kCode, .from = DType::kInt32, .runs = runs.encoded}, on.stream);
  CHECK(integers.code() == Code::kUnsupported);
  CHECK(integers.message() == "no kernel compresses int32");
  CHECK(on.codecs.select({.from = DType::kInt8, .runs = {}}, on.stream).code() ==
        Code::kUnsupported);
  CHECK(on.codecs.scatter({.to = DType::kInt8, .runs = {}}, on.stream).code() ==
        Code::kUnsupported);
  cuda_fake::fail_next("launch", cudaErrorLaunchFailure);
  const Status failed = on.codecs.decode({.code = kCode, .runs = runs.decoded}, on.stream);
  CHECK(failed.code() == Code::kUnavailable);
  CHECK(failed.message().find("a kernel of compression on cuda:0") == 0);
}

TEST_CASE("device codecs: no kernel of top-k follows one that could not be launched") {
  Codecs on;
  std::vector<float> values(100, 1.0F), left(100), chosen(1);
  std::vector<std::uint32_t> indices(1), found(1);
  std::vector<std::uint64_t> scratch(on.codecs.select_scratch(100) / 8 + 1);
  const SelectRun run{.values = values.data(),
                      .left = left.data(),
                      .indices = indices.data(),
                      .chosen = chosen.data(),
                      .found = found.data(),
                      .scratch = reinterpret_cast<std::byte*>(scratch.data()),
                      .count = 100,
                      .most = 1};
  const int before = cuda_fake::launches();
  cuda_fake::fail_next("launch", cudaErrorLaunchFailure, 3);
  CHECK(on.codecs.select({.runs = {&run, 1}}, on.stream).code() == Code::kUnavailable);
  CHECK(cuda_fake::launches() == before + 4);
  REQUIRE(on.codecs.select({.runs = {&run, 1}}, on.stream).ok());
  cuda_fake::finish(static_cast<cudaStream_t>(on.stream));
  CHECK(found[0] == 1);
}

TEST_CASE("device codecs: frames come from values of each floating type, and become them again") {
  constexpr std::size_t kCount = 300;
  std::vector<float> given(kCount);
  for (std::size_t i = 0; i < kCount; ++i) given[i] = static_cast<float>(i) - 150.0F;
  for (const DType type : {DType::kFloat32, DType::kFloat16, DType::kBfloat16, DType::kFloat64}) {
    CAPTURE(to_string(type));
    Codecs on;
    std::vector<std::byte> values(kCount * size_of(type));
    plain_kernels()->cast(DType::kFloat32, given.data(), type, values.data(), kCount);
    std::vector<std::byte> frame(2 * kCount);
    std::vector<std::byte> out(values.size() + 1, std::byte{0xcd});
    const EncodeRun to{.values = values.data(), .frame = frame.data(), .count = kCount};
    const DecodeRun back{.frame = frame.data(), .out = out.data(), .count = kCount};
    REQUIRE(on.codecs.encode({.code = kCode, .from = type, .runs = {&to, 1}}, on.stream).ok());
    REQUIRE(on.codecs.decode({.code = kCode, .to = type, .runs = {&back, 1}}, on.stream).ok());
    cuda_fake::finish(static_cast<cudaStream_t>(on.stream));
    CHECK(out.back() == std::byte{0xcd});
    out.pop_back();
    CHECK(out == values);
  }
}

}  // namespace ronde::test
