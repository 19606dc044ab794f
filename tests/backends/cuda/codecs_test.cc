// The arithmetic of compression on the device, run thread by thread on the CPU, against the codecs
// of ops/: the same frames and the same losses, bit for bit.
#include "backends/cuda/codecs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "backends/cuda/kernels.h"
#include "ops/compression/compressed_work.h"
#include "tests/support/cuda_fake/cudart_fake.h"
#include "tests/support/encoded_values.h"

namespace ronde::test {
namespace {

using namespace ronde::cuda;

constexpr std::size_t kCounts[] = {1, 2, 63, 64, 65, 511, 1000, 4097, 6200};
constexpr std::uint64_t kKey = 0x1234'5678'9abc'def0ULL;
constexpr std::uint64_t kOffset = 4096;

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// One run of values, encoded and decoded on both sides.
struct Sides {
  Sides(const SharedFormat& of, std::size_t count, float odd)
      : shared(of),
        spec(parse_compression(of.spec).value()),
        codec(make_codec(spec)),
        values(blocks_of_values(count, odd)),
        frame(codec->encoded_bytes(count) + 1, std::byte{0xcd}) {}

  /// The CPU's frame of values + residual; what it loses becomes the residual. Null: there is none.
  std::vector<std::byte> encode_on_cpu(std::vector<float>* residual) const {
    std::vector<float> sums = values;
    for (std::size_t i = 0; residual != nullptr && i < sums.size(); ++i) sums[i] += (*residual)[i];
    std::vector<std::byte> made(frame.size(), std::byte{0xcd});
    codec->encode({.values = sums,
                   .frame = made.data(),
                   .lost = residual == nullptr ? nullptr : residual->data(),
                   .key = kKey,
                   .offset = kOffset});
    return made;
  }

  /// Encodes the values on the host's side of the kernels; `run` says what is added and left.
  void run_encode(EncodeWork work, EncodeRun run, std::byte* to) const {
    run.values = values.data();
    run.frame = to;
    run.count = values.size();
    run.offset = kOffset;
    run.key = compression::fold_key(kKey);
    work.code = code_of(shared, spec);
    work.runs = {&run, 1};
    REQUIRE(launch_encode(work, nullptr) == cudaSuccess);
    cuda_fake::finish(nullptr);
  }

  void encode_here(float* residual) {
    run_encode({}, {.residual = residual, .lost = residual}, frame.data());
  }

  [[nodiscard]] std::span<const std::byte> encoded() const {
    return std::span(frame).first(frame.size() - 1);
  }

  /// Gives whether all elements are finite.
  bool decode_here(std::vector<float>& out) const {
    std::uint32_t flag = 0;
    const DecodeRun run{frame.data(), out.data(), &flag, out.size()};
    const DecodeWork work{.code = code_of(shared, spec), .runs = {&run, 1}};
    REQUIRE(launch_decode(work, nullptr) == cudaSuccess);
    cuda_fake::finish(nullptr);
    return flag == 0;
  }

  /// The values with what two copies of the frame say added, as a frame.
  [[nodiscard]] std::vector<std::byte> encode_sum_here() const {
    std::vector<std::byte> two(encoded().begin(), encoded().end());
    two.insert(two.end(), encoded().begin(), encoded().end());
    std::vector<std::byte> made(frame.size(), std::byte{0xcd});
    run_encode({.code = {},
                .factor = 0.5,
                .added_frames = 2,
                .added_stride = encoded().size(),
                .runs = {}},
               {.added = two.data()}, made.data());
    return made;
  }

  const SharedFormat shared;
  const CompressionSpec spec;
  const std::unique_ptr<const Codec> codec;
  const std::vector<float> values;
  std::vector<std::byte> frame;  // and a byte that nobody may write
};

template <typename Check>
void for_all(const Check& check) {
  constexpr float kOdd[] = {0.0F,
                            -0.0F,
                            65505.0F,
                            std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()};
  for (const SharedFormat& shared : kSharedFormats) {
    for (const std::size_t count : kCounts) {
      for (const float odd : kOdd) {
        CAPTURE(std::string(shared.spec));
        CAPTURE(count);
        CAPTURE(odd);
        Sides sides(shared, count, odd);
        check(sides);
      }
    }
  }
}

}  // namespace

TEST_CASE("codecs on the device: frames and what they lose have the bits of the CPU's codecs") {
  for_all([](Sides& sides) {
    std::vector<float> expected(sides.values.size());
    std::vector<float> residual(sides.values.size());
    for (int step = 0; step < 3; ++step) {  // the second encodes what the first has lost
      const auto frame = sides.encode_on_cpu(&expected);
      sides.encode_here(residual.data());
      REQUIRE(sides.frame == frame);
      REQUIRE(same_bits(residual, expected));
    }
  });
}

TEST_CASE("codecs on the device: without a residual the frame is the same and nothing else is") {
  for_all([](Sides& sides) {
    const auto frame = sides.encode_on_cpu(nullptr);
    sides.encode_here(nullptr);
    REQUIRE(sides.frame == frame);
  });
}

TEST_CASE("codecs on the device: decoding has the bits of the CPU's codecs and tells of NaN") {
  for_all([](Sides& sides) {
    sides.encode_here(nullptr);
    std::vector<float> expected(sides.values.size(), 0.3F);
    std::vector<float> out = expected;
    const bool finite = sides.decode_here(out);
    REQUIRE(sides.codec->decode(sides.encoded(), expected).ok());
    REQUIRE(same_bits(out, expected));
    REQUIRE(finite == all_finite(DType::kFloat32, expected.data(), expected.size()));
  });
}

TEST_CASE("codecs on the device: frames that are added make the frame of the CPU's sum") {
  for_all([](Sides& sides) {
    sides.encode_here(nullptr);
    std::vector<float> sums = sides.values;
    for (float& sum : sums) sum *= 0.5F;
    REQUIRE(sides.codec->decode_add(sides.encoded(), sums).ok());
    REQUIRE(sides.codec->decode_add(sides.encoded(), sums).ok());
    std::vector<std::byte> frame(sides.frame.size(), std::byte{0xcd});
    sides.codec->encode({.values = sums, .frame = frame.data(), .key = kKey, .offset = kOffset});
    REQUIRE(sides.encode_sum_here() == frame);
  });
}

TEST_CASE("codecs on the device: a copy is made unless its tensor is not finite") {
  const std::vector<float> from(9000, 2.0F);
  for (const std::uint32_t flag : {0U, 1U}) {
    std::vector<float> to(from.size(), 1.0F);
    const CommitRun run{from.data(), to.data(), &flag, from.size()};
    REQUIRE(launch_commit({&run, 1}, nullptr) == cudaSuccess);
    cuda_fake::finish(nullptr);
    CHECK(to == std::vector<float>(from.size(), flag == 0 ? 2.0F : 1.0F));
  }
}

}  // namespace ronde::test
