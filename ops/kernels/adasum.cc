// For each instruction set. Numbers of two doubles are multiplied and added as
// ops/kernels/double_double.h does.
#include "ops/kernels/adasum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/kernels/adasum.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "ops/kernels/double_inl.h"

HWY_BEFORE_NAMESPACE();
namespace ronde::kernels::HWY_NAMESPACE {

static_assert(kAdasumLanes % hn::MaxLanes(D64()) == 0);

HWY_INLINE F64 load(const double* from) { return load_unaligned(D64(), from); }
HWY_INLINE void store(F64 v, double* to) { store_unaligned(v, D64(), to); }

/// The upper 26 bits of numbers below 2^996.
HWY_INLINE F64 upper_half(F64 v) {
  const F64 scaled = hn::Mul(hn::Set(D64(), 134217729.0), v);  // 2^27 + 1
  return hn::Sub(scaled, hn::Sub(scaled, v));
}

/// A number in two parts whose products with such parts are exact.
struct Halves {
  F64 whole;
  F64 high;
  F64 low;

  HWY_INLINE explicit Halves(F64 v) : whole(v), high(upper_half(v)), low(hn::Sub(whole, high)) {}
};

/// a * b exactly.
HWY_INLINE Rounded exact_product(const Halves& a, const Halves& b) {
  const F64 product = hn::Mul(a.whole, b.whole);
  const F64 rest = hn::Sub(hn::Mul(a.high, b.high), product);
  const F64 mixed = hn::Add(hn::Add(rest, hn::Mul(a.high, b.low)), hn::Mul(a.low, b.high));
  return {product, hn::Add(mixed, hn::Mul(a.low, b.low))};
}

/// a + b exactly, where |a| >= |b|.
HWY_INLINE Rounded normalised(F64 a, F64 b) {
  const F64 sum = hn::Add(a, b);
  return {sum, hn::Sub(b, hn::Sub(sum, a))};
}

HWY_INLINE Rounded wide_sum(const Rounded& a, const Rounded& b) {
  const Rounded sum = exact_sum(a.value, b.value);
  const Rounded low = exact_sum(a.error, b.error);
  const Rounded first = normalised(sum.value, hn::Add(sum.error, low.value));
  return normalised(first.value, hn::Add(first.error, low.error));
}

/// One vector of a dot product under way.
struct Dot {
  F64 sum;
  F64 error;

  HWY_INLINE Dot(const DotLanes& lanes, std::size_t first)
      : sum(load(lanes.sum.data() + first)), error(load(lanes.error.data() + first)) {}
  HWY_INLINE void save(DotLanes& lanes, std::size_t first) const {
    store(sum, lanes.sum.data() + first);
    store(error, lanes.error.data() + first);
  }
  HWY_INLINE void add(F64 v) {
    const Rounded next = exact_sum(sum, v);
    sum = next.value;
    error = hn::Add(error, next.error);
  }
};

/// One double for each number.
struct Single {
  F64 value;

  static HWY_INLINE Single load_from(const WideNumbers& numbers, std::size_t at) {
    return {load(numbers.hi + at)};
  }
  static HWY_INLINE void add_product(const Single& a, const Single& b, Dot& dot) {
    dot.add(hn::Mul(a.value, b.value));
  }
};

/// Two doubles for each number.
struct Wide {
  Halves hi;
  F64 lo;

  static HWY_INLINE Wide load_from(const WideNumbers& numbers, std::size_t at) {
    return {Halves(load(numbers.hi + at)), load(numbers.lo + at)};
  }
  static HWY_INLINE void add_product(const Wide& a, const Wide& b, Dot& dot) {
    const Rounded product = exact_product(a.hi, b.hi);
    const F64 mixed = hn::Add(hn::Mul(a.hi.whole, b.lo), hn::Mul(a.lo, b.hi.whole));
    dot.add(product.value);
    dot.error = hn::Add(dot.error, hn::Add(product.error, mixed));
  }
};

/// The lanes from `first` on, as many as a vector has: their sums stay in registers.
template <class Numbers>
HWY_INLINE void add_dots_of(const WideNumbers& a, const WideNumbers& b, std::size_t count,
                            std::size_t first, PairDots& dots) {
  Dot ab(dots.ab, first);
  Dot aa(dots.aa, first);
  Dot bb(dots.bb, first);
  for (std::size_t i = first; i < count; i += kAdasumLanes) {
    const Numbers of_a = Numbers::load_from(a, i);
    const Numbers of_b = Numbers::load_from(b, i);
    Numbers::add_product(of_a, of_b, ab);
    Numbers::add_product(of_a, of_a, aa);
    Numbers::add_product(of_b, of_b, bb);
  }
  ab.save(dots.ab, first);
  aa.save(dots.aa, first);
  bb.save(dots.bb, first);
}

void add_dots_here(const WideNumbers& a, const WideNumbers& b, std::size_t count, PairDots& dots) {
  for (std::size_t first = 0; first < kAdasumLanes; first += hn::Lanes(D64())) {
    if (a.lo == nullptr) {
      add_dots_of<Single>(a, b, count, first, dots);
    } else {
      add_dots_of<Wide>(a, b, count, first, dots);
    }
  }
}

HWY_INLINE void add_scaled_once(const DoubleDouble& factor, const double* in, double* hi) {
  store(hn::Add(load(hi), hn::Mul(hn::Set(D64(), factor.hi), load(in))), hi);
}

HWY_INLINE void add_scaled_once(const DoubleDouble& factor, const double* in, double* hi,
                                double* lo) {
  const F64 input = load(in);
  const Rounded product = exact_product(Halves(hn::Set(D64(), factor.hi)), Halves(input));
  const F64 low = hn::Add(product.error, hn::Mul(hn::Set(D64(), factor.lo), input));
  const Rounded sum = wide_sum({load(hi), load(lo)}, normalised(product.value, low));
  store(sum.value, hi);
  store(sum.error, lo);
}

void add_scaled_here(const DoubleDouble& factor, const double* in, std::size_t count,
                     const WideNumbers& sum) {
  const std::size_t step = hn::Lanes(D64());
  for (std::size_t i = 0; i < count; i += step) {
    if (sum.lo == nullptr) {
      add_scaled_once(factor, in + i, sum.hi + i);
    } else {
      add_scaled_once(factor, in + i, sum.hi + i, sum.lo + i);
    }
  }
}

}  // namespace ronde::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ronde::kernels {

HWY_EXPORT(add_dots_here);
HWY_EXPORT(add_scaled_here);

void add_dots(const WideNumbers& a, const WideNumbers& b, std::size_t count, PairDots& dots) {
  HWY_DYNAMIC_DISPATCH(add_dots_here)(a, b, count, dots);
}

void add_scaled(const DoubleDouble& factor, const double* in, std::size_t count,
                const WideNumbers& sum) {
  HWY_DYNAMIC_DISPATCH(add_scaled_here)(factor, in, count, sum);
}

}  // namespace ronde::kernels
#endif
