// fp16 and bf16: each element rounded to 16 bits, to nearest even.
//
// Format: 2 bytes for each element, IEEE 754 binary16 (fp16) or the upper half of binary32 (bf16).
// No header, no padding. fp16: finite values beyond 65504 become 65504 with their sign. Infinity
// and NaN stay.
#include <algorithm>
#include <array>
#include <cstring>

#include "ops/compression/codec.h"
#include "ops/compression/registry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/compression/codecs/half.cc"
#include <hwy/foreach_target.h>

#include "ops/kernels/half_inl.h"

HWY_BEFORE_NAMESPACE();
namespace ronde::compression::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace kernels::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace): its lanes

constexpr std::size_t kMost = hn::MaxLanes(D32());

HWY_INLINE F32 in_range(Bfloat16, F32 v) { return v; }
HWY_INLINE F32 in_range(Float16, F32 v) {
  const F32 most = hn::Set(D32(), 65504.0F);
  return hn::IfThenElse(hn::IsFinite(v), hn::Max(hn::Min(v, most), hn::Neg(most)), v);
}

template <class Half>
HWY_INLINE void encode_vector(const float* from, std::uint16_t* to, float* lost) {
  const F32 v = load_unaligned(D32(), from);
  Half::narrow(in_range(Half(), v), to);
  if (lost != nullptr) store_unaligned(hn::Sub(v, Half::widen(to)), D32(), lost);
}

template <class Half>
void encode_as(const EncodeCall& call) {
  auto* to = reinterpret_cast<std::uint16_t*>(call.frame);
  const std::size_t step = hn::Lanes(D32());
  const std::size_t whole = call.values.size() / step * step;
  for (std::size_t i = 0; i < whole; i += step) {
    encode_vector<Half>(call.values.data() + i, to + i,
                        call.lost == nullptr ? nullptr : call.lost + i);
  }
  const std::size_t rest = call.values.size() - whole;
  if (rest == 0) return;
  float values[kMost] = {}, lost[kMost];
  std::uint16_t halves[kMost];
  std::copy_n(call.values.data() + whole, rest, values);
  encode_vector<Half>(values, halves, lost);
  std::memcpy(to + whole, halves, rest * sizeof(std::uint16_t));
  if (call.lost != nullptr) std::copy_n(lost, rest, call.lost + whole);
}

template <class Half>
HWY_INLINE void decode_vector(const std::uint16_t* from, float* to, bool add) {
  F32 v = Half::widen(from);
  if (add) v = hn::Add(load_unaligned(D32(), to), v);
  store_unaligned(v, D32(), to);
}

template <class Half>
void decode_as(const std::byte* frame, std::span<float> out, bool add) {
  const auto* from = reinterpret_cast<const std::uint16_t*>(frame);
  const std::size_t step = hn::Lanes(D32());
  const std::size_t whole = out.size() / step * step;
  for (std::size_t i = 0; i < whole; i += step) decode_vector<Half>(from + i, &out[i], add);
  const std::size_t rest = out.size() - whole;
  if (rest == 0) return;
  float values[kMost] = {};
  std::uint16_t halves[kMost] = {};
  std::memcpy(halves, from + whole, rest * sizeof(std::uint16_t));
  std::copy_n(&out[whole], rest, values);
  decode_vector<Half>(halves, values, add);
  std::copy_n(values, rest, &out[whole]);
}

void encode_half_here(const EncodeCall& call, CodecKind kind) {
  return kind == CodecKind::kFp16 ? encode_as<Float16>(call) : encode_as<Bfloat16>(call);
}

void decode_half_here(const std::byte* frame, std::span<float> out, CodecKind kind, bool add) {
  return kind == CodecKind::kFp16 ? decode_as<Float16>(frame, out, add)
                                  : decode_as<Bfloat16>(frame, out, add);
}

}  // namespace ronde::compression::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ronde {
namespace compression {
HWY_EXPORT(encode_half_here);
HWY_EXPORT(decode_half_here);

namespace {

std::size_t half_bytes(std::size_t count, std::size_t /*block*/) { return 2 * count; }
void encode_half(const EncodeCall& call, const CompressionSpec& spec) {
  HWY_DYNAMIC_DISPATCH(encode_half_here)(call, spec.kind);
}
void decode_half(const std::byte* frame, std::span<float> out, const CompressionSpec& spec,
                 bool add) {
  HWY_DYNAMIC_DISPATCH(decode_half_here)(frame, out, spec.kind, add);
}
constexpr FrameKernels kHalfFrames{half_bytes, encode_half, decode_half};

}  // namespace
}  // namespace compression

namespace {

double half_share(const CompressionSpec&, const WireLoad&) { return 0.5; }

constexpr std::array kHalfParameters{parameters::kErrorFeedback, parameters::kResidual};

}  // namespace

constinit const CodecRow kFp16Codec{
    .name = "fp16",
    .title = "FP16",
    .summary =
        "float16 to nearest even, added in fp32: half of the bytes; finite values beyond "
        "its range stay at its ends",
    .defaults = {.kind = CodecKind::kFp16, .error_feedback = false},
    .parameters = kHalfParameters,
    .payload = Payload::kFrames,
    .cast = "float16",
    .rounds = 1.1,
    .wire_share = half_share,
    .auto_place = AutoPlace{Accuracy::kSafe, 0},
    .device_format = FrameFormat::kFp16,
    .frames = &compression::kHalfFrames,
};

constinit const CodecRow kBf16Codec{
    .name = "bf16",
    .title = "BF16",
    .summary = "bfloat16 to nearest even, added in fp32: half of the bytes",
    .defaults = {.kind = CodecKind::kBf16, .error_feedback = false},
    .parameters = kHalfParameters,
    .payload = Payload::kFrames,
    .cast = "bfloat16",
    .rounds = 1.1,
    .wire_share = half_share,
    .auto_place = AutoPlace{Accuracy::kSafe, 1},
    .device_format = FrameFormat::kBf16,
    .frames = &compression::kHalfFrames,
};

}  // namespace ronde
#endif
