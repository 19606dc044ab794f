// Element types whose sums are wider than their elements, for averages: float32 in fp64, float64 in
// two fp64 numbers. The average of equal values then is that value. Compiled once for each
// instruction set, as lanes_inl.h.
#if defined(RONDE_OPS_KERNELS_MEAN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RONDE_OPS_KERNELS_MEAN_INL_H_
#undef RONDE_OPS_KERNELS_MEAN_INL_H_
#else
#define RONDE_OPS_KERNELS_MEAN_INL_H_
#endif

#include "ops/kernels/double_inl.h"
#include "ops/kernels/loops_inl.h"

HWY_BEFORE_NAMESPACE();
namespace ronde::kernels::HWY_NAMESPACE {

/// float32, summed in fp64 and rounded once.
struct WideFloat {
  using Elem = float;
  using V = F64;
  static constexpr bool kStreams = true;
  static constexpr bool kDivides = true;

  static HWY_INLINE std::size_t step() { return hn::Lanes(D64()); }
  static HWY_INLINE V load(const Elem* from) { return fp32_to_fp64(from); }
  static HWY_INLINE void store(V v, Elem* to) { store_unaligned(fp64_to_fp32(v), Narrow32(), to); }
  static HWY_INLINE void stream(V v, Elem* to) { stream_aligned(fp64_to_fp32(v), Narrow32(), to); }

  template <class Op>
  static HWY_INLINE V combine(V a, V b) {
    return Op::apply(D64(), a, b);
  }
  static HWY_INLINE V divide(V v, double divisor) { return hn::Div(v, hn::Set(D64(), divisor)); }
  static HWY_INLINE V scale(V v, double factor) { return hn::Mul(v, hn::Set(D64(), factor)); }
};

/// The mean of two float32, rounded once with half of WideFloat's work. Half of a sum is exact,
/// unless it is subnormal, and then the sum was exact. Where the sum overflows, the numbers are
/// large enough to be halved before.
struct MeanOfTwoFloats {
  using Elem = float;
  using D = hn::ScalableTag<float>;
  struct V {
    hn::Vec<D> sum;  ///< Of one number: that number.
    hn::Vec<D> a;
    hn::Vec<D> b;
  };
  static constexpr bool kStreams = true;
  static constexpr bool kDivides = false;

  static HWY_INLINE std::size_t step() { return hn::Lanes(D()); }
  static HWY_INLINE V load(const Elem* from) {
    const auto v = load_unaligned(D(), from);
    return {v, v, v};
  }
  static HWY_INLINE void store(V v, Elem* to) { store_unaligned(v.sum, D(), to); }
  static HWY_INLINE void stream(V v, Elem* to) { stream_aligned(v.sum, D(), to); }

  /// Sums of two only.
  template <class Op>
  static HWY_INLINE V combine(V a, V b) {
    static_assert(std::is_same_v<Op, Sum>);
    return {hn::Add(a.sum, b.sum), a.sum, b.sum};
  }
  /// The factor is a half.
  static HWY_INLINE V scale(V v, double) {
    const auto half = hn::Set(D(), 0.5F);
    const auto finite = hn::IsFinite(v.sum);
    const auto mean = hn::Mul(v.sum, half);
    if (HWY_LIKELY(hn::AllTrue(D(), finite))) return {mean, mean, mean};
    const auto of_halves = hn::Add(hn::Mul(v.a, half), hn::Mul(v.b, half));
    const auto either = hn::IfThenElse(finite, mean, of_halves);
    return {either, either, either};
  }
};

/// float64, summed without loss into a sum and its error.
struct CompensatedDouble {
  using Elem = double;
  struct V {
    F64 sum;
    F64 error;
  };
  static constexpr bool kStreams = true;
  static constexpr bool kDivides = true;

  static HWY_INLINE std::size_t step() { return hn::Lanes(D64()); }
  static HWY_INLINE V load(const Elem* from) {
    return {load_unaligned(D64(), from), hn::Zero(D64())};
  }
  static HWY_INLINE void store(V v, Elem* to) { store_unaligned(rounded(v), D64(), to); }
  static HWY_INLINE void stream(V v, Elem* to) { stream_aligned(rounded(v), D64(), to); }

  /// Sums only.
  template <class Op>
  static HWY_INLINE V combine(V a, V b) {
    static_assert(std::is_same_v<Op, Sum>);
    const Rounded sum = exact_sum(a.sum, b.sum);
    return {sum.value, hn::Add(a.error, hn::Add(b.error, sum.error))};
  }

  /// Long division: the quotient of the sum, and that of what is left.
  static HWY_INLINE V divide(V v, double divisor) {
    const F64 by = hn::Set(D64(), divisor);
    const F64 quotient = hn::Div(v.sum, by);
    const F64 high = high_half(quotient);
    const F64 low = hn::Sub(quotient, high);
    const F64 left = hn::Sub(hn::Sub(v.sum, hn::Mul(high, by)), hn::Mul(low, by));
    return {quotient, hn::Div(hn::Add(left, v.error), by)};
  }
  static HWY_INLINE V scale(V v, double factor) {
    const F64 by = hn::Set(D64(), factor);
    const F64 sum = rounded(v);
    const F64 error = hn::Add(hn::Sub(v.sum, sum), v.error);
    return {hn::Mul(sum, by), hn::Mul(error, by)};
  }

 private:
  /// The upper 26 bits of the significand: times a divisor below 2^20 they are exact.
  static HWY_INLINE F64 high_half(F64 v) {
    const hn::RebindToUnsigned<D64> bits;
    const auto mask = hn::Set(bits, ~((std::uint64_t{1} << 27) - 1));
    return hn::BitCast(D64(), hn::And(hn::BitCast(bits, v), mask));
  }
  /// An infinite sum has no error. Without an error the sign of zero stays.
  static HWY_INLINE F64 rounded(V v) {
    const F64 none = hn::Zero(D64());
    const auto exact = hn::Or(hn::Not(hn::IsFinite(v.sum)), hn::Eq(v.error, none));
    return hn::IfThenElse(exact, v.sum, hn::Add(v.sum, v.error));
  }
};

/// True where a wider sum can change the result. The sum of two float32 may overflow before it is
/// scaled; that of two float64 gains by a division alone.
HWY_INLINE bool needs_wide_sum(const ReduceCall& call) {
  const bool scales = call.post != 1.0;
  if (call.op != ReduceOp::kSum || !(scales || call.rounds_once)) return false;
  if (call.inputs.size() > 2) return true;
  if (call.inputs.size() < 2 || !scales) return false;
  return call.dtype == DType::kFloat32 || divisor_of(call.post) != 0.0;
}

/// A sum that needs_wide_sum(): of two, it has factors.
template <class E>
void reduce_wide_sum(const ReduceCall& call) {
  if (call.inputs.size() == 2) return reduce_loop<E, Sum, 2, true>(call);
  reduce_sum_of_many<E>(call);
}

/// The usual mean over two ranks.
HWY_INLINE bool is_mean_of_two(const ReduceCall& call) {
  return call.inputs.size() == 2 && call.pre == 1.0 && call.post == 0.5;
}

}  // namespace ronde::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
