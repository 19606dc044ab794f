// The loop over memory that all reductions share. Compiled once for each instruction set, as
// lanes_inl.h. Ragged ends go through the same vector arithmetic as the middle, so an element's
// bits never depend on where it lies.
#if defined(RONDE_OPS_KERNELS_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RONDE_OPS_KERNELS_LOOPS_INL_H_
#undef RONDE_OPS_KERNELS_LOOPS_INL_H_
#else
#define RONDE_OPS_KERNELS_LOOPS_INL_H_
#endif

#include <hwy/cache_control.h>

#include <algorithm>
#include <array>
#include <span>

#include "ops/kernels/entries.h"
#include "ops/kernels/lanes_inl.h"

HWY_BEFORE_NAMESPACE();
namespace ronde::kernels::HWY_NAMESPACE {

/// Room for one step of any element type.
inline constexpr std::size_t kMaxStep = HWY_MAX_BYTES;

template <class E>
HWY_INLINE typename E::V load_some(const typename E::Elem* from, std::size_t count) {
  HWY_ALIGN typename E::Elem lanes[kMaxStep / sizeof(typename E::Elem)] = {};
  std::memcpy(lanes, from, count * sizeof(lanes[0]));
  return E::load(lanes);
}

template <class E>
HWY_INLINE void store_some(typename E::V v, typename E::Elem* to, std::size_t count) {
  HWY_ALIGN typename E::Elem lanes[kMaxStep / sizeof(typename E::Elem)];
  E::store(v, lanes);
  std::memcpy(to, lanes, count * sizeof(lanes[0]));
}

/// Element by element, between types with the same V.
template <class From, class To>
void convert(const typename From::Elem* in, typename To::Elem* out, std::size_t count) {
  const std::size_t step = hn::Lanes(hn::DFromV<typename From::V>());
  std::size_t i = 0;
  for (; i + step <= count; i += step) To::store(From::load(in + i), out + i);
  if (i < count) store_some<To>(load_some<From>(in + i, count - i), out + i, count - i);
}

/// The computation at each place. kInputs is the number of inputs, or 0: the call has it.
template <class E, class Op, std::size_t kInputs, bool kScaled>
class Combination {
 public:
  using Elem = typename E::Elem;
  using V = typename E::V;

  HWY_INLINE explicit Combination(const ReduceCall& call)
      : pre_(call.pre), post_(call.post), divisor_(divisor_of(call.post)) {
    if constexpr (kInputs == 0) {
      inputs_ = call.inputs;
    } else {
      for (std::size_t k = 0; k < kInputs; ++k) inputs_[k] = call.inputs[k];
    }
  }

  /// One step of results from `place` on.
  HWY_INLINE V at(std::size_t place) const {
    V v = before(E::load(input(0) + place));
    for (std::size_t k = 1; k < inputs_.size(); ++k) {
      v = E::template combine<Op>(v, before(E::load(input(k) + place)));
    }
    return after(v);
  }

  /// Loads `count` elements, fewer than a step.
  HWY_INLINE V some_at(std::size_t place, std::size_t count) const {
    V v = before(load_some<E>(input(0) + place, count));
    for (std::size_t k = 1; k < inputs_.size(); ++k) {
      v = E::template combine<Op>(v, before(load_some<E>(input(k) + place, count)));
    }
    return after(v);
  }

 private:
  HWY_INLINE const Elem* input(std::size_t k) const { return static_cast<const Elem*>(inputs_[k]); }
  HWY_INLINE V before(V v) const {
    if constexpr (kScaled) {
      if (pre_ != 1.0) return E::scale(v, pre_);
    }
    return v;
  }
  HWY_INLINE V after(V v) const {
    if constexpr (kScaled && E::kDivides) {
      if (divisor_ != 0.0) return E::divide(v, divisor_);
    }
    if constexpr (kScaled) {
      if (post_ != 1.0) return E::scale(v, post_);
    }
    return v;
  }

  std::conditional_t<kInputs == 0, std::span<const void* const>, std::array<const void*, kInputs>>
      inputs_;
  const double pre_;
  const double post_;
  const double divisor_;  ///< In place of post_, unless 0.
};

/// Elements before `out` is aligned to a step; nothing where it never is, or steps are too small.
template <class E>
HWY_INLINE std::size_t elements_to_alignment(const typename E::Elem* out, std::size_t count) {
  const std::size_t unit = E::step() * sizeof(*out);
  const std::size_t missing = (unit - reinterpret_cast<std::uintptr_t>(out) % unit) % unit;
  return std::min(count, missing / sizeof(*out));
}

template <class E>
HWY_INLINE bool can_stream(const void* out) {
  return E::step() * sizeof(typename E::Elem) >= 16 &&
         reinterpret_cast<std::uintptr_t>(out) % sizeof(typename E::Elem) == 0;
}

/// Writes the results of `count` places, fewer than a step. It runs twice at most for a tensor, and
/// would be most of a loop's code. It reads the call anew: the loop's combination stays in
/// registers.
template <class E, class C>
HWY_NOINLINE void write_some(const ReduceCall& call, std::size_t place, std::size_t count) {
  auto* const out = static_cast<typename E::Elem*>(call.out);
  store_some<E>(C(call).some_at(place, count), out + place, count);
}

/// From here on it pays to begin where stores do not cross cache lines.
inline constexpr std::size_t kWorthAligning = 8;

template <class E, class C>
HWY_INLINE void run_cached(const ReduceCall& call, const C& combination) {
  const std::size_t step = E::step();
  const std::size_t count = call.count;
  auto* const out = static_cast<typename E::Elem*>(call.out);
  std::size_t i = count < kWorthAligning * step ? 0 : elements_to_alignment<E>(out, count);
  if (i > 0) write_some<E, C>(call, 0, i);
  for (; i + step <= count; i += step) E::store(combination.at(i), out + i);
  if (i < count) write_some<E, C>(call, i, count - i);
}

template <class E, class C>
HWY_INLINE void run_streaming(const ReduceCall& call, const C& combination) {
  const std::size_t step = E::step();
  const std::size_t count = call.count;
  auto* const out = static_cast<typename E::Elem*>(call.out);
  std::size_t i = elements_to_alignment<E>(out, count);
  if (i > 0) write_some<E, C>(call, 0, i);
  for (; i + step <= count; i += step) E::stream(combination.at(i), out + i);
  if (i < count) write_some<E, C>(call, i, count - i);
  hwy::FlushStream();
}

template <class E, class Op, std::size_t kInputs, bool kScaled>
HWY_NOINLINE void reduce_loop(const ReduceCall& call) {
  using C = Combination<E, Op, kInputs, kScaled>;
  const C combination(call);
  if constexpr (E::kStreams) {
    if (call.streaming && can_stream<E>(call.out)) return run_streaming<E>(call, combination);
  }
  run_cached<E>(call, combination);
}

template <class E, class Op, std::size_t kInputs = 0>
void reduce_scaled_or_not(const ReduceCall& call) {
  if (call.pre == 1.0 && call.post == 1.0) return reduce_loop<E, Op, kInputs, false>(call);
  return reduce_loop<E, Op, kInputs, true>(call);
}

/// Sums are what training waits for: the usual numbers of inputs have loops of their own.
template <class E>
void reduce_sum_of_many(const ReduceCall& call) {
  switch (call.inputs.size()) {
    case 3:
      return reduce_scaled_or_not<E, Sum, 3>(call);
    case 4:
      return reduce_scaled_or_not<E, Sum, 4>(call);
    default:
      return reduce_scaled_or_not<E, Sum>(call);
  }
}

template <class E>
void reduce_sum(const ReduceCall& call) {
  if (call.inputs.size() == 1) return reduce_scaled_or_not<E, Sum, 1>(call);
  if (call.inputs.size() == 2) return reduce_scaled_or_not<E, Sum, 2>(call);
  return reduce_sum_of_many<E>(call);
}

/// The operations that floating types have.
template <class E>
void reduce_floating(const ReduceCall& call) {
  switch (call.op) {
    case ReduceOp::kMin:
      return reduce_loop<E, Min, 0, true>(call);
    case ReduceOp::kMax:
      return reduce_loop<E, Max, 0, true>(call);
    case ReduceOp::kProduct:
      return reduce_loop<E, Product, 0, true>(call);
    default:
      return reduce_sum<E>(call);
  }
}

}  // namespace ronde::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
