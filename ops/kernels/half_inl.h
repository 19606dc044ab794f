// float16 and bfloat16 in registers, as fp32. Compiled once for each instruction set, as
// lanes_inl.h. Both also have widen and narrow: one vector of fp32 at a time, in memory order.
#if defined(RONDE_OPS_KERNELS_HALF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RONDE_OPS_KERNELS_HALF_INL_H_
#undef RONDE_OPS_KERNELS_HALF_INL_H_
#else
#define RONDE_OPS_KERNELS_HALF_INL_H_
#endif

#include <cmath>
#include <limits>

#include "ops/kernels/lanes_inl.h"

HWY_BEFORE_NAMESPACE();
namespace ronde::kernels::HWY_NAMESPACE {

using D32 = hn::ScalableTag<float>;
using DU32 = hn::RebindToUnsigned<D32>;
using DI32 = hn::RebindToSigned<D32>;
using DU16 = hn::Rebind<std::uint16_t, D32>;
using F32 = hn::Vec<D32>;
using U32 = hn::Vec<DU32>;

HWY_INLINE U32 constant(std::uint32_t bits) { return hn::Set(DU32(), bits); }

HWY_INLINE U32 choose(hn::Mask<DU32> condition, U32 yes, U32 no) {
  return hn::IfThenElse(condition, yes, no);
}

/// `bits` < 2^31 compared with a constant.
HWY_INLINE hn::Mask<DU32> less(U32 bits, std::uint32_t limit) {
  return hn::RebindMask(
      DU32(), hn::Lt(hn::BitCast(DI32(), bits), hn::Set(DI32(), static_cast<std::int32_t>(limit))));
}

/// The low 16 bits of each lane; the high ones are zero.
HWY_INLINE hn::Vec<DU16> low_halves(U32 bits) {
  return hn::DemoteTo(DU16(), hn::BitCast(DI32(), bits));
}

/// bfloat16, two in each 32-bit lane: even and odd elements are computed with apart, so no element
/// ever changes its lane.
struct Bfloat16 {
  using Elem = std::uint16_t;
  static constexpr bool kStreams = true;
  static constexpr bool kDivides = false;
  struct V {
    F32 even;
    F32 odd;
  };

  static HWY_INLINE std::size_t step() { return 2 * hn::Lanes(D32()); }

  static HWY_INLINE V load(const Elem* from) {
    const U32 both = load_unaligned(DU32(), from);
    return {hn::BitCast(D32(), hn::ShiftLeft<16>(both)),
            hn::BitCast(D32(), hn::And(both, constant(0xffff0000U)))};
  }
  static HWY_INLINE void store(V v, Elem* to) { store_unaligned(pack(v), DU32(), to); }
  static HWY_INLINE void stream(V v, Elem* to) {
    stream_aligned(pack(v), DU32(), reinterpret_cast<std::uint32_t*>(to));
  }

  template <class Op>
  static HWY_INLINE V combine(V a, V b) {
    return {Op::apply(D32(), a.even, b.even), Op::apply(D32(), a.odd, b.odd)};
  }
  static HWY_INLINE V scale(V v, double factor) {
    const F32 by = hn::Set(D32(), factor_of(factor));
    return {hn::Mul(v.even, by), hn::Mul(v.odd, by)};
  }

  static HWY_INLINE F32 widen(const Elem* from) {
    const U32 bits = hn::PromoteTo(DU32(), load_unaligned(DU16(), from));
    return hn::BitCast(D32(), hn::ShiftLeft<16>(bits));
  }
  static HWY_INLINE void narrow(F32 v, Elem* to) {
    store_unaligned(low_halves(hn::ShiftRight<16>(round(v))), DU16(), to);
  }

 private:
  /// NaN as bfloat16 has it: see pack().
  static HWY_INLINE float factor_of(double factor) {
    return std::isnan(factor) ? std::numeric_limits<float>::quiet_NaN()
                              : static_cast<float>(factor);
  }
  /// Nearest even in the upper 16 bits of each lane; NaN stays a quiet NaN. The rest is undefined.
  static HWY_INLINE U32 round(F32 v) {
    const U32 bits = hn::BitCast(DU32(), v);
    const U32 is_odd = hn::And(hn::ShiftRight<16>(bits), constant(1));
    const U32 rounded = hn::Add(bits, hn::Add(is_odd, constant(0x7fffU)));
    const U32 quiet = hn::Or(bits, constant(0x400000U));
    return choose(hn::RebindMask(DU32(), hn::IsNaN(v)), quiet, rounded);
  }

#if HWY_TARGET == HWY_SCALAR
  static HWY_INLINE U32 pack(V v) {
    return hn::Or(hn::ShiftRight<16>(round(v.even)), hn::And(round(v.odd), constant(0xffff0000U)));
  }
#else
  /// Nearest even as well, by 16-bit lanes: the upper halves, plus one where the lower ones are
  /// above the middle, or on it beside an odd upper half. NaN needs no care: here it is an
  /// operand's or the instruction set's own, whose lower half is zeros, and nothing is added.
  static HWY_INLINE U32 pack(V v) {
    using D16 = hn::Repartition<std::uint16_t, DU32>;
    const U32 even = hn::BitCast(DU32(), v.even);
    const U32 odd = hn::BitCast(DU32(), v.odd);
    const auto in_lanes = [](U32 high, U32 low) HWY_ATTR {
      return hn::OddEven(hn::BitCast(D16(), high), hn::BitCast(D16(), low));
    };
    const auto upper = in_lanes(odd, hn::ShiftRight<16>(even));
    const auto lower = in_lanes(hn::ShiftLeft<16>(odd), even);
    const auto is_even = hn::AndNot(upper, hn::Set(D16(), std::uint16_t{1}));
    const auto carry = hn::ShiftRight<15>(hn::SaturatedSub(lower, is_even));
    return hn::BitCast(DU32(), hn::Add(upper, carry));
  }
#endif
};

#if (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3) && !defined(HWY_DISABLE_F16C)

using DF16 = hn::Rebind<hwy::float16_t, D32>;
HWY_INLINE F32 float16_to_fp32(hn::Vec<DU16> bits) {
  return hn::PromoteTo(D32(), hn::BitCast(DF16(), bits));
}
HWY_INLINE hn::Vec<DU16> fp32_to_float16(F32 v) {
  return hn::BitCast(DU16(), hn::DemoteTo(DF16(), v));
}

#else  // core/base/small_float.h, lane by lane; Highway's own conversions do without infinity and
       // NaN

HWY_INLINE F32 float16_to_fp32(hn::Vec<DU16> half) {
  const U32 bits = hn::PromoteTo(DU32(), half);
  const U32 sign = hn::ShiftLeft<16>(hn::And(bits, constant(0x8000U)));
  const U32 rest = hn::ShiftLeft<13>(hn::And(bits, constant(0x7fffU)));
  const F32 two_to_112 = hn::BitCast(D32(), constant(0x77800000U));
  const U32 finite = hn::BitCast(DU32(), hn::Mul(hn::BitCast(D32(), rest), two_to_112));
  const U32 special = hn::Add(rest, constant(0x70000000U));
  return hn::BitCast(D32(), hn::Or(sign, choose(less(rest, 0x0f800000U), finite, special)));
}

HWY_INLINE hn::Vec<DU16> fp32_to_float16(F32 v) {
  const U32 bits = hn::BitCast(DU32(), v);
  const U32 sign = hn::ShiftRight<16>(hn::And(bits, constant(0x80000000U)));
  const U32 rest = hn::And(bits, constant(0x7fffffffU));
  const U32 mantissa = hn::And(hn::ShiftRight<13>(rest), constant(0x3ffU));
  const U32 nan = hn::Or(mantissa, constant(0x7e00U));
  const F32 half_one = hn::Set(D32(), 0.5F);  // its last bit is worth 2^-24, float16's smallest
  const U32 shifted = hn::BitCast(DU32(), hn::Add(hn::BitCast(D32(), rest), half_one));
  const U32 subnormal = hn::Sub(shifted, constant(0x3f000000U));
  const U32 is_odd = hn::And(hn::ShiftRight<13>(rest), constant(1));
  const U32 raised = hn::Add(hn::Add(rest, is_odd), constant(0xfffU - 0x38000000U));
  const U32 normal = hn::ShiftRight<13>(raised);
  U32 result = choose(less(rest, 0x38800000U), subnormal, normal);
  result = choose(less(rest, 0x477ff000U), result, constant(0x7c00U));
  result = choose(less(rest, 0x7f800001U), result, nan);
  return low_halves(hn::Or(sign, result));
}

#endif

struct Float16 {
  using Elem = std::uint16_t;
  using V = F32;
  static constexpr bool kStreams = true;
  static constexpr bool kDivides = false;

  static HWY_INLINE std::size_t step() { return hn::Lanes(D32()); }
  static HWY_INLINE V load(const Elem* from) { return widen(from); }
  static HWY_INLINE void store(V v, Elem* to) { narrow(v, to); }
  static HWY_INLINE void stream(V v, Elem* to) { stream_aligned(fp32_to_float16(v), DU16(), to); }

  template <class Op>
  static HWY_INLINE V combine(V a, V b) {
    return Op::apply(D32(), a, b);
  }
  static HWY_INLINE V scale(V v, double factor) { return Plain<float>::scale(v, factor); }

  static HWY_INLINE F32 widen(const Elem* from) {
    return float16_to_fp32(load_unaligned(DU16(), from));
  }
  static HWY_INLINE void narrow(F32 v, Elem* to) {
    store_unaligned(fp32_to_float16(v), DU16(), to);
  }
};

}  // namespace ronde::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
