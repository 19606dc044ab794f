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

/// Two inputs and the place of their means.
struct Means {
  const float* a;
  const float* b;
  float* out;
  std::size_t count;
};

bool overlap(const float* a, const float* b, std::size_t count) {
  const std::less<> before;
  return before(a, b + count) && before(b, a + count);
}

/// Computes a vector of means. Makes `overflown` no number if a sum overflows or is no number.
template <bool kStreaming, class V>
HWY_INLINE void mean_unchecked(const Means& means, std::size_t at, V& overflown) {
  const MeanOfTwoFloats::D d;
  const auto sum = hn::Add(load_unaligned(d, means.a + at), load_unaligned(d, means.b + at));
  const auto mean = hn::Mul(sum, hn::Set(d, 0.5F));
  overflown = hn::MulAdd(sum, hn::Zero(d), overflown);
  if constexpr (kStreaming) {
    stream_aligned(mean, d, means.out + at);
  } else {
    store_unaligned(mean, d, means.out + at);
  }
}

/// Means to memory of their own, of a step or more. Returns false if a sum overflowed: checks for
/// each vector would cost 5 to 8 % of an average of up to 1 MB. Ragged ends overlap the middle.
template <bool kStreaming>
HWY_NOINLINE bool mean_of_two(const Means& given) {
  const Means means = given;  // no store can change it
  const MeanOfTwoFloats::D d;
  const std::size_t step = hn::Lanes(d);
  auto t0 = hn::Zero(d);  // four, as one would be added to by one vector after the other
  auto t1 = t0;
  auto t2 = t0;
  auto t3 = t0;
  mean_unchecked<false>(means, 0, t0);
  std::size_t i = elements_to_alignment<MeanOfTwoFloats>(means.out, means.count);
  for (; i + 4 * step <= means.count; i += 4 * step) {
    mean_unchecked<kStreaming>(means, i, t0);
    mean_unchecked<kStreaming>(means, i + step, t1);
    mean_unchecked<kStreaming>(means, i + 2 * step, t2);
    mean_unchecked<kStreaming>(means, i + 3 * step, t3);
  }
  for (; i + step <= means.count; i += step) mean_unchecked<kStreaming>(means, i, t1);
  mean_unchecked<false>(means, means.count - step, t2);
  if constexpr (kStreaming) hwy::FlushStream();
  return hn::AllFalse(d, hn::IsNaN(hn::Add(hn::Add(t0, t1), hn::Add(t2, t3))));
}

/// Elements `begin` to `end`, each vector of which is checked.
void mean_checked(const Means& means, std::size_t begin, std::size_t end) {
  if (begin == end) return;
  const std::array<const void*, 2> inputs = {means.a + begin, means.b + begin};
  reduce_loop<MeanOfTwoFloats, Sum, 2, true>(
      {.post = 0.5, .inputs = inputs, .out = means.out + begin, .count = end - begin});
}

/// Means where `out` may be an input: four vectors are checked together before they are stored.
HWY_NOINLINE void mean_of_two_in_place(const Means& given) {
  const Means means = given;
  const MeanOfTwoFloats::D d;
  const std::size_t step = hn::Lanes(d);
  const auto half = hn::Set(d, 0.5F);
  const auto zero = hn::Zero(d);
  const auto sum = [&](std::size_t at) HWY_ATTR {
    return hn::Add(load_unaligned(d, means.a + at), load_unaligned(d, means.b + at));
  };
  const std::size_t begin = elements_to_alignment<MeanOfTwoFloats>(means.out, means.count);
  mean_checked(means, 0, begin);
  std::size_t i = begin;
  for (; i + 4 * step <= means.count; i += 4 * step) {
    const auto s0 = sum(i);
    const auto s1 = sum(i + step);
    const auto s2 = sum(i + 2 * step);
    const auto s3 = sum(i + 3 * step);
    const auto t0 = hn::MulAdd(s0, zero, hn::Mul(s1, zero));
    const auto t1 = hn::MulAdd(s2, zero, hn::Mul(s3, zero));
    if (HWY_UNLIKELY(!hn::AllFalse(d, hn::IsNaN(hn::Add(t0, t1))))) {
      mean_checked(means, i, i + 4 * step);
      continue;
    }
    store_unaligned(hn::Mul(s0, half), d, means.out + i);
    store_unaligned(hn::Mul(s1, half), d, means.out + i + step);
    store_unaligned(hn::Mul(s2, half), d, means.out + i + 2 * step);
    store_unaligned(hn::Mul(s3, half), d, means.out + i + 3 * step);
  }
  mean_checked(means, i, means.count);
}

void reduce_mean_of_two(const ReduceCall& call) {
  const Means means = {static_cast<const float*>(call.inputs[0]),
                       static_cast<const float*>(call.inputs[1]), static_cast<float*>(call.out),
                       call.count};
  if (overlap(means.a, means.out, call.count) || overlap(means.b, means.out, call.count)) {
    return mean_of_two_in_place(means);
  }
  const bool is_short = call.count < MeanOfTwoFloats::step();
  const bool streams = call.streaming && can_stream<MeanOfTwoFloats>(call.out);
  const bool done = !is_short && (streams ? mean_of_two<true>(means) : mean_of_two<false>(means));
  if (!done) mean_checked(means, 0, call.count);
}

void reduce_floating_here(const ReduceCall& call) {
  switch (call.dtype) {
    case DType::kFloat16:
      return reduce_floating<Float16>(call);
    case DType::kBfloat16:
      return reduce_floating<Bfloat16>(call);
    case DType::kFloat64:
      if (needs_wide_sum(call)) return reduce_sum<CompensatedDouble>(call);
      return reduce_floating<Plain<double>>(call);
    default:
      if (needs_wide_sum(call)) {
        if (is_mean_of_two(call)) return reduce_mean_of_two(call);
        return reduce_sum<WideFloat>(call);
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
