// fp64 in registers: to and from fp32, and arithmetic whose rounding errors are kept. Compiled once
// for each instruction set, as lanes_inl.h.
#if defined(RONDE_OPS_KERNELS_DOUBLE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RONDE_OPS_KERNELS_DOUBLE_INL_H_
#undef RONDE_OPS_KERNELS_DOUBLE_INL_H_
#else
#define RONDE_OPS_KERNELS_DOUBLE_INL_H_
#endif

#include "core/base/small_float.h"
#include "ops/kernels/lanes_inl.h"

HWY_BEFORE_NAMESPACE();
namespace ronde::kernels::HWY_NAMESPACE {

using D64 = hn::ScalableTag<double>;
using F64 = hn::Vec<D64>;
/// As many fp32 numbers as a vector has fp64 ones.
using Narrow32 = hn::Rebind<float, D64>;

HWY_INLINE F64 fp32_to_fp64(const float* from) {
  return hn::PromoteTo(D64(), load_unaligned(Narrow32(), from));
}

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

template <class Convert>
HWY_INLINE hn::Vec<Narrow32> narrow_each(F64 v, Convert convert) {
  constexpr std::size_t kLanes = hn::MaxLanes(D64());
  HWY_ALIGN double wide[kLanes];
  HWY_ALIGN float narrowed[kLanes];
  hn::Store(v, D64(), wide);
  for (std::size_t i = 0; i < kLanes; ++i) narrowed[i] = convert(wide[i]);
  return hn::Load(Narrow32(), narrowed);
}

/// DemoteTo of these targets makes infinity finite.
HWY_INLINE hn::Vec<Narrow32> fp64_to_fp32(F64 v) {
  return narrow_each(v, [](double value) { return static_cast<float>(value); });
}

/// As round_to_odd of core/base/small_float.h.
HWY_INLINE hn::Vec<Narrow32> fp64_to_odd_fp32(F64 v) { return narrow_each(v, &round_to_odd); }

#else

HWY_INLINE hn::Vec<Narrow32> fp64_to_fp32(F64 v) { return hn::DemoteTo(Narrow32(), v); }

/// As round_to_odd of core/base/small_float.h.
HWY_INLINE hn::Vec<Narrow32> fp64_to_odd_fp32(F64 v) {
  using Bits32 = hn::RebindToUnsigned<Narrow32>;
  using Bits64 = hn::RebindToUnsigned<D64>;
  const auto as_bits = [](hn::Mask<D64> mask) HWY_ATTR {
    return hn::TruncateTo(Bits32(), hn::BitCast(Bits64(), hn::VecFromMask(D64(), mask)));
  };
  const auto nearest = fp64_to_fp32(v);
  const F64 back = hn::PromoteTo(D64(), nearest);
  const auto away = as_bits(hn::Gt(hn::Abs(back), hn::Abs(v)));  // all bits: -1
  const auto inexact = as_bits(hn::Or(hn::Lt(back, v), hn::Gt(back, v)));
  const auto truncated = hn::Add(hn::BitCast(Bits32(), nearest), away);
  const auto sticky = hn::And(inexact, hn::Set(Bits32(), 1U));
  return hn::BitCast(Narrow32(), hn::Or(truncated, sticky));
}

#endif

/// A number and what was lost when it was rounded.
struct Rounded {
  F64 value;
  F64 error;
};

/// a + b exactly (Knuth's TwoSum: The Art of Computer Programming, volume 2, 4.2.2).
HWY_INLINE Rounded exact_sum(F64 a, F64 b) {
  const F64 sum = hn::Add(a, b);
  const F64 of_b = hn::Sub(sum, a);
  const F64 of_a = hn::Sub(sum, of_b);
  return {sum, hn::Add(hn::Sub(a, of_a), hn::Sub(b, of_b))};
}

}  // namespace ronde::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
