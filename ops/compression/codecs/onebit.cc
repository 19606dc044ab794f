// onebit: the sign of each element, and the value of each sign in each block.
//
// Format of a block of n elements, 8 + (n + 7) / 8 bytes:
//   0     fp32  the mean of the elements that are not below zero; 0 without any
//   4     fp32  the mean of those below zero; 0 without any
//   8     bits, element i in bit i % 8 of byte i / 8: 1 is not below zero; unused ones are 0
// A block with NaN or infinity has two NaN and decodes to NaN.
// Source: Seide et al., "1-Bit Stochastic Gradient Descent", Interspeech 2014.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/compression/codec.h"
#include "ops/compression/registry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/compression/codecs/onebit.cc"
#include <hwy/foreach_target.h>

#include "ops/compression/codecs/group_inl.h"

HWY_BEFORE_NAMESPACE();
namespace ronde::compression::HWY_NAMESPACE {

struct Means {
  float above = 0.0F;  // of the values that are not below zero
  float below = 0.0F;
};

/// Adds 16 lanes in one order.
HWY_INLINE float sum_of(const float* lanes) {
  float sum = 0.0F;
  for (std::size_t i = 0; i < kGroup; ++i) sum += lanes[i];
  return sum;
}

/// As means_of(), for sums beyond the range of fp32.
inline Means wide_means(const float* values, std::size_t count) {
  double above = 0, below = 0;
  std::size_t positive = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (values[i] < 0) {
      below += values[i];
    } else {
      above += values[i];
      ++positive;
    }
  }
  const auto mean = [](double sum, std::size_t n) {
    return n == 0 ? 0.0F : static_cast<float>(sum / static_cast<double>(n));
  };
  return {mean(above, positive), mean(below, count - positive)};
}

/// Adds up sixteen sums side by side on every CPU: the same bits everywhere.
HWY_INLINE Means means_of(const float* values, std::size_t count) {
  const D d;
  const V zero = hn::Zero(d);
  HWY_ALIGN float above[kGroup] = {}, below[kGroup] = {}, negative[kGroup] = {};
  for_vectors(values, count, [&](std::size_t i, V v) HWY_ATTR {
    const std::size_t lane = i % kGroup;
    const auto is_below = hn::Lt(v, zero);
    hn::Store(hn::Add(hn::Load(d, above + lane), hn::Max(v, zero)), d, above + lane);
    hn::Store(hn::Add(hn::Load(d, below + lane), hn::Min(v, zero)), d, below + lane);
    const V one = hn::IfThenElseZero(is_below, hn::Set(d, 1.0F));
    hn::Store(hn::Add(hn::Load(d, negative + lane), one), d, negative + lane);
  });
  const float many_below = sum_of(negative);
  const float many_above = static_cast<float>(count) - many_below;
  const Means means{many_above == 0.0F ? 0.0F : sum_of(above) / many_above,
                    many_below == 0.0F ? 0.0F : sum_of(below) / many_below};
  if (std::isfinite(means.above) && std::isfinite(means.below)) return means;
  return wide_means(values, count);
}

/// One bit for each lane, the first lane in bit 0.
template <class M>
HWY_INLINE std::uint32_t bits_of(M mask) {
  std::uint8_t bytes[8] = {};
  hn::StoreMaskBits(D(), mask, bytes);
  return bytes[0] | (static_cast<std::uint32_t>(bytes[1]) << 8);
}

HWY_INLINE hn::Mask<D> mask_of(std::uint32_t bits) {
  const std::uint8_t bytes[8] = {static_cast<std::uint8_t>(bits),
                                 static_cast<std::uint8_t>(bits >> 8)};
  return hn::LoadMaskBits(D(), bytes);
}

/// Writes the signs of one block, and the loss of each element.
HWY_INLINE void write_signs(const float* values, std::size_t count, const Means& means, float* lost,
                            std::byte* to) {
  const D d;
  const V above = hn::Set(d, means.above);
  const V below = hn::Set(d, means.below);
  std::uint32_t bits = 0;
  for_vectors(values, count, [&](std::size_t i, V v) HWY_ATTR {
    const auto sign = hn::Ge(v, hn::Zero(d));
    if (lost != nullptr) {
      store_part(hn::Sub(v, hn::IfThenElse(sign, above, below)), d, lost, i, count);
    }
    bits |= bits_of(sign) << (i % kGroup);
    if ((i + hn::Lanes(d)) % kGroup != 0) return;
    const std::size_t first = i / kGroup * kGroup;
    if (count - first < kGroup) bits &= (1U << (count - first)) - 1;
    std::memcpy(to + first / 8, &bits, (std::min(count - first, kGroup) + 7) / 8);
    bits = 0;
  });
}

void encode_onebit_here(const EncodeCall& call, std::size_t length) {
  std::byte* to = call.frame;
  for (std::size_t begin = 0; begin < call.values.size(); begin += length) {
    const float* values = call.values.data() + begin;
    const std::size_t count = std::min(length, call.values.size() - begin);
    const float largest = largest_magnitude(values, count);
    const Means means = std::isnan(largest) ? Means{largest, largest} : means_of(values, count);
    std::memcpy(to, &means, sizeof means);
    write_signs(values, count, means, call.lost == nullptr ? nullptr : call.lost + begin,
                to + sizeof means);
    to += sizeof means + (count + 7) / 8;
  }
}

/// Writes one block's values to `out`, or adds them. `from`: its signs.
template <bool kAdd>
HWY_INLINE void read_signs(const std::byte* from, std::size_t count, const Means& means,
                           float* out) {
  const D d;
  const V above = hn::Set(d, means.above);
  const V below = hn::Set(d, means.below);
  for (std::size_t first = 0; first < count; first += kGroup) {
    std::uint32_t bits = 0;
    const std::size_t here = std::min(count - first, kGroup);
    std::memcpy(&bits, from + first / 8, (here + 7) / 8);
    HWY_ALIGN float last[kGroup] = {};
    if (kAdd && here < kGroup) std::copy_n(out + first, here, last);
    float* to = here < kGroup ? last : out + first;
    for (std::size_t j = 0; j < kGroup; j += hn::Lanes(d)) {
      V v = hn::IfThenElse(mask_of(bits >> j), above, below);
      if constexpr (kAdd) v = hn::Add(load_unaligned(d, to + j), v);
      store_unaligned(v, d, to + j);
    }
    if (here < kGroup) std::copy_n(last, here, out + first);
  }
}

void decode_onebit_here(const std::byte* from, std::span<float> out, std::size_t length, bool add) {
  for (std::size_t begin = 0; begin < out.size(); begin += length) {
    const std::size_t count = std::min(length, out.size() - begin);
    Means means;
    std::memcpy(&means, from, sizeof means);
    from += sizeof means;
    if (add) {
      read_signs<true>(from, count, means, out.data() + begin);
    } else {
      read_signs<false>(from, count, means, out.data() + begin);
    }
    from += (count + 7) / 8;
  }
}

}  // namespace ronde::compression::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ronde {
namespace compression {
HWY_EXPORT(encode_onebit_here);
HWY_EXPORT(decode_onebit_here);

namespace {

std::size_t onebit_bytes(std::size_t count, std::size_t block) {
  return (count + 7) / 8 + (count + block - 1) / block * 2 * sizeof(float);
}
void encode_onebit(const EncodeCall& call, const CompressionSpec& spec) {
  HWY_DYNAMIC_DISPATCH(encode_onebit_here)(call, spec.block);
}
void decode_onebit(const std::byte* frame, std::span<float> out, const CompressionSpec& spec,
                   bool add) {
  HWY_DYNAMIC_DISPATCH(decode_onebit_here)(frame, out, spec.block, add);
}
constexpr FrameKernels kOnebitFrames{onebit_bytes, encode_onebit, decode_onebit};

}  // namespace
}  // namespace compression

namespace {

constexpr std::array kOnebitParameters{parameters::kBlock, parameters::kWarmup,
                                       parameters::kErrorFeedback, parameters::kResidual};

}  // namespace

constinit const CodecRow kOnebitCodec{
    .name = "onebit",
    .title = "Onebit",
    .summary = "The sign of each element and two means for each block: a sixteenth of the bytes",
    .defaults = {.kind = CodecKind::kOnebit, .block = 64},
    .parameters = kOnebitParameters,
    .payload = Payload::kFrames,
    .sends_little = true,
    .training_warmup = 200,
    .rounds = 1.1,
    .wire_share = [](const CompressionSpec& spec,
                     const WireLoad&) { return 1 / 32.0 + 2 / static_cast<double>(spec.block); },
    .auto_place = AutoPlace{Accuracy::kAggressive, 6},
    .device_format = FrameFormat::kOnebit,
    .frames = &compression::kOnebitFrames,
};

}  // namespace ronde
#endif
