// The arithmetic of compression on the device, run thread by thread on the CPU, against the codecs
// of ops/: the same frames and the same losses, bit for bit.
#include "backends/cuda/codecs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/encoded_values.h"

namespace ronde::test {
namespace {

using namespace ronde::cuda;

constexpr std::size_t kCounts[] = {1, 2, 63, 64, 65, 511, 1000, 4097, 6200};
constexpr std::uint64_t kKey = 0x1234'5678'9abc'def0ULL;
constexpr std::uint64_t kOffset = 4096;

/// All threads of all blocks, one after the other; between the two parts of encoding all meet.
void encode_on_host(const EncodeWork& work) {
  for (std::size_t block = 0; block < tiles_of(work.count, work.block); ++block) {
    std::uint32_t largest = 0;
    for (unsigned thread = 0; thread < kThreads; ++thread) {
      largest = std::max(largest, largest_of(work, block, thread));
    }
    for (unsigned thread = 0; thread < kThreads; ++thread) {
      if (is_half(work.format)) {
        encode_halves(work, block, thread);
      } else {
        encode_multiples(work, block, thread, largest);
      }
    }
  }
}

void decode_on_host(const DecodeWork& work) {
  for (std::size_t block = 0; block < tiles_of(work.count, work.block); ++block) {
    for (unsigned thread = 0; thread < kThreads; ++thread) decode_block(work, block, thread);
  }
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// What both sides make of one run of values.
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

  void encode_here(float* residual) {
    EncodeWork work = encode_work(shared, spec, kKey, kOffset);
    work.values = values.data();
    work.residual = residual;
    work.frame = reinterpret_cast<std::uint8_t*>(frame.data());
    work.count = values.size();
    encode_on_host(work);
  }

  [[nodiscard]] std::span<const std::byte> encoded() const {
    return std::span(frame).first(frame.size() - 1);
  }

  void decode_here(std::vector<float>& out, bool add) const {
    decode_on_host({.format = shared.format,
                    .frame = reinterpret_cast<const std::uint8_t*>(frame.data()),
                    .out = out.data(),
                    .count = out.size(),
                    .block = encode_work(shared, spec, 0, 0).block,
                    .add = add});
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

TEST_CASE("codecs on the device: decoding, and adding, has the bits of the CPU's codecs") {
  for_all([](Sides& sides) {
    sides.encode_here(nullptr);
    std::vector<float> expected(sides.values.size(), 0.3F);
    std::vector<float> out = expected;
    REQUIRE(sides.codec->decode_add(sides.encoded(), expected).ok());
    sides.decode_here(out, true);
    REQUIRE(same_bits(out, expected));
    REQUIRE(sides.codec->decode(sides.encoded(), expected).ok());
    sides.decode_here(out, false);
    REQUIRE(same_bits(out, expected));
  });
}

}  // namespace ronde::test
