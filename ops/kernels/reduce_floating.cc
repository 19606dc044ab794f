// Reductions of float16, bfloat16, float32 and float64, for each instruction set.
#include <array>
#include <functional>

#include "ops/kernels/entries.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/kernels/reduce_floating.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "ops/kernels/half_inl.h"
#include "ops/kernels/loops_inl.h"
#include "ops/kernels/mean_inl.h"

HWY_BEFORE_NAMESPACE();
namespace ronde::kernels::HWY_NAMESPACE {

// The functions below take addresses one by one. In a struct, gcc copies both inputs' addresses
// with one load from call.inputs, which waits until the two stores by the caller have reached the
// cache: 10 ns for each 4 KB.

bool overlap(const float* a, const float* b, std::size_t count) {
  const std::less<> before;
  return before(a, b + count) && before(b, a + count);
}

/// Computes a step of means. Makes `overflown` NaN if a sum overflows or is NaN.
template <bool kStreaming, class V>
HWY_INLINE void mean_unchecked(const float* a, const float* b, float* out, V& overflown) {
  const MeanOfTwoFloats::D d;
  const auto sum = hn::Add(load_unaligned(d, a), load_unaligned(d, b));
  const auto mean = hn::Mul(sum, hn::Set(d, 0.5F));
  overflown = hn::MulAdd(sum, hn::Zero(d), overflown);
  if constexpr (kStreaming) {
    stream_aligned(mean, d, out);
  } else {
    store_unaligned(mean, d, out);
  }
}

/// Means to memory of their own, of a step or more. Returns false if a sum overflowed: checks for
/// each vector would cost 5 to 8 % of an average of up to 1 MB. Ragged ends overlap the middle.
template <bool kStreaming>
HWY_NOINLINE bool mean_of_two(const float* a, const float* b, float* out, std::size_t count) {
  const MeanOfTwoFloats::D d;
  const std::size_t step = hn::Lanes(d);
  auto t0 = hn::Zero(d);  // four, as one would be added to by one vector after the other
  auto t1 = t0;
  auto t2 = t0;
  auto t3 = t0;
  mean_unchecked<false>(a, b, out, t0);
  std::size_t i = elements_to_alignment<MeanOfTwoFloats>(out, count);
  for (; i + 4 * step <= count; i += 4 * step) {
    mean_unchecked<kStreaming>(a + i, b + i, out + i, t0);
    mean_unchecked<kStreaming>(a + i + step, b + i + step, out + i + step, t1);
    mean_unchecked<kStreaming>(a + i + 2 * step, b + i + 2 * step, out + i + 2 * step, t2);
    mean_unchecked<kStreaming>(a + i + 3 * step, b + i + 3 * step, out + i + 3 * step, t3);
  }
  for (; i + step <= count; i += step) mean_unchecked<kStreaming>(a + i, b + i, out + i, t1);
  const std::size_t last = count - step;
  mean_unchecked<false>(a + last, b + last, out + last, t2);
  if constexpr (kStreaming) hwy::FlushStream();
  return hn::AllFalse(d, hn::IsNaN(hn::Add(hn::Add(t0, t1), hn::Add(t2, t3))));
}

/// Means of which each vector is checked.
HWY_NOINLINE void mean_checked(const float* a, const float* b, float* out, std::size_t count) {
  const std::array<const void*, 2> inputs = {a, b};
  reduce_loop<MeanOfTwoFloats, Sum, 2, true>(
      {.post = 0.5, .inputs = inputs, .out = out, .count = count});
}

/// Four steps of means. Returns false, with nothing stored, if a sum overflows or is NaN.
HWY_INLINE bool mean_of_four_steps(const float* a, const float* b, float* out) {
  const MeanOfTwoFloats::D d;
  const std::size_t step = hn::Lanes(d);
  const auto half = hn::Set(d, 0.5F);
  const auto zero = hn::Zero(d);
  const auto s0 = hn::Add(load_unaligned(d, a), load_unaligned(d, b));
  const auto s1 = hn::Add(load_unaligned(d, a + step), load_unaligned(d, b + step));
  const auto s2 = hn::Add(load_unaligned(d, a + 2 * step), load_unaligned(d, b + 2 * step));
  const auto s3 = hn::Add(load_unaligned(d, a + 3 * step), load_unaligned(d, b + 3 * step));
  const auto t0 = hn::MulAdd(s0, zero, hn::Mul(s1, zero));
  const auto t1 = hn::MulAdd(s2, zero, hn::Mul(s3, zero));
  if (HWY_UNLIKELY(!hn::AllFalse(d, hn::IsNaN(hn::Add(t0, t1))))) return false;
  store_unaligned(hn::Mul(s0, half), d, out);
  store_unaligned(hn::Mul(s1, half), d, out + step);
  store_unaligned(hn::Mul(s2, half), d, out + 2 * step);
  store_unaligned(hn::Mul(s3, half), d, out + 3 * step);
  return true;
}

/// Means where `out` may be an input: four steps are checked together before they are stored.
HWY_NOINLINE void mean_of_two_in_place(const float* a, const float* b, float* out,
                                       std::size_t count) {
  const std::size_t block = 4 * MeanOfTwoFloats::step();
  std::size_t i = elements_to_alignment<MeanOfTwoFloats>(out, count);
  if (i > 0) mean_checked(a, b, out, i);
  for (; i + block <= count; i += block) {
    if (!mean_of_four_steps(a + i, b + i, out + i)) mean_checked(a + i, b + i, out + i, block);
  }
  if (i < count) mean_checked(a + i, b + i, out + i, count - i);
}

void reduce_mean_of_two(const ReduceCall& call) {
  const auto* const a = static_cast<const float*>(call.inputs[0]);
  const auto* const b = static_cast<const float*>(call.inputs[1]);
  auto* const out = static_cast<float*>(call.out);
  if (overlap(a, out, call.count) || overlap(b, out, call.count)) {
    return mean_of_two_in_place(a, b, out, call.count);
  }
  const bool is_short = call.count < MeanOfTwoFloats::step();
  const bool streams = call.streaming && can_stream<MeanOfTwoFloats>(out);
  const bool done = !is_short && (streams ? mean_of_two<true>(a, b, out, call.count)
                                          : mean_of_two<false>(a, b, out, call.count));
  if (!done) mean_checked(a, b, out, call.count);
}

void reduce_floating_here(const ReduceCall& call) {
  switch (call.dtype) {
    case DType::kFloat16:
      return reduce_floating<Float16>(call);
    case DType::kBfloat16:
      return reduce_floating<Bfloat16>(call);
    case DType::kFloat64:
      if (needs_wide_sum(call)) return reduce_wide_sum<CompensatedDouble>(call);
      return reduce_floating<Plain<double>>(call);
    default:
      if (needs_wide_sum(call)) {
        if (is_mean_of_two(call)) return reduce_mean_of_two(call);
        return reduce_wide_sum<WideFloat>(call);
      }
      return reduce_floating<Plain<float>>(call);
  }
}

}  // namespace ronde::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ronde::kernels {

HWY_EXPORT(reduce_floating_here);
void reduce_floating(const ReduceCall& call) { HWY_DYNAMIC_DISPATCH(reduce_floating_here)(call); }

}  // namespace ronde::kernels
#endif
