// Helpers of the tests of all codecs.
#pragma once

#include <doctest/doctest.h>
#include <hwy/targets.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ops/compression/codec.h"

namespace ronde::test {

inline const std::vector<std::string>& all_codecs() {
  static const std::vector<std::string> kAll{"fp16",
                                             "bf16",
                                             "int8",
                                             "int8:block=64,rounding=stochastic,seed=3",
                                             "int4",
                                             "int4:block=4096",
                                             "int4:rounding=stochastic",
                                             "onebit",
                                             "onebit:block=64"};
  return kAll;
}

inline std::unique_ptr<const Codec> codec_of(const std::string& text) {
  return make_codec(*parse_compression(text));
}

/// Counts around everything that blocks, groups and registers end at.
inline const std::vector<std::size_t>& odd_counts() {
  static const std::vector<std::size_t> kCounts{1,   2,   3,    15,   16,   17,   31,
                                                63,  64,  65,   255,  256,  257,  511,
                                                512, 513, 1023, 1024, 1025, 4097, 5000};
  return kCounts;
}

/// Values of very different size, both signs, some zeros; the same for equal seeds.
inline std::vector<float> gradients(std::size_t count, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = i % 37 == 5 ? 0.0F : normal(random) * (i % 11 == 0 ? 10.0F : 0.1F);
  }
  return values;
}

inline std::vector<std::byte> encoded(const Codec& codec, const std::vector<float>& values,
                                      std::uint64_t key = 0, std::vector<float>* lost = nullptr) {
  std::vector<std::byte> frame(codec.encoded_bytes(values.size()));
  if (lost != nullptr) lost->resize(values.size());
  codec.encode({values, frame.data(), lost == nullptr ? nullptr : lost->data(), key, 0});
  return frame;
}

inline std::vector<float> decoded(const Codec& codec, const std::vector<std::byte>& frame,
                                  std::size_t count) {
  std::vector<float> values(count, 77.0F);
  CHECK(codec.decode(frame, values).ok());
  return values;
}

inline std::vector<float> round_trip(const Codec& codec, const std::vector<float>& values,
                                     std::uint64_t key = 0) {
  return decoded(codec, encoded(codec, values, key), values.size());
}

/// Runs `body` once for each instruction set that was compiled and that this CPU has.
inline void on_each_target(const std::function<void()>& body) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    INFO("instruction set ", hwy::TargetName(target));
    body();
    hwy::SetSupportedTargetsForTest(0);
  }
}

/// Bit for bit.
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace ronde::test
