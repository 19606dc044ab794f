// Reductions of integers and bool, for each instruction set.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "ops/kernels/entries.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/kernels/reduce_integer.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "ops/kernels/loops_inl.h"

HWY_BEFORE_NAMESPACE();
namespace ronde::kernels::HWY_NAMESPACE {

/// Without factors. Only minima and maxima depend on the sign.
template <typename T>
void reduce_numbers(const ReduceCall& call) {
  using E = Plain<T>;
  using Bits = Plain<std::make_unsigned_t<T>>;
  switch (call.op) {
    case ReduceOp::kMin:
      return reduce_loop<E, Min, 0, false>(call);
    case ReduceOp::kMax:
      return reduce_loop<E, Max, 0, false>(call);
    case ReduceOp::kProduct:
      return reduce_loop<Bits, Product, 0, false>(call);
    case ReduceOp::kBitAnd:
      return reduce_loop<Bits, BitAnd, 0, false>(call);
    case ReduceOp::kBitOr:
      return reduce_loop<Bits, BitOr, 0, false>(call);
    case ReduceOp::kBitXor:
      return reduce_loop<Bits, BitXor, 0, false>(call);
    default:
      return reduce_loop<Bits, Sum, 0, false>(call);
  }
}

/// Sum and max are "or", product and min are "and".
void reduce_bool(const ReduceCall& call) {
  switch (call.op) {
    case ReduceOp::kMin:
    case ReduceOp::kProduct:
    case ReduceOp::kBitAnd:
      return reduce_loop<Bool, BitAnd, 0, false>(call);
    case ReduceOp::kBitXor:
      return reduce_loop<Bool, BitXor, 0, false>(call);
    default:
      return reduce_loop<Bool, BitOr, 0, false>(call);
  }
}

void reduce_integer_here(const ReduceCall& call) {
  if (call.dtype == DType::kBool) return reduce_bool(call);
  element::with_type(call.dtype, [&]<typename T>() {
    if constexpr (std::is_integral_v<T>) reduce_numbers<T>(call);
  });
}

}  // namespace ronde::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ronde::kernels {

HWY_EXPORT(reduce_integer_here);

namespace {

/// The sum of a type: of 64 bits.
template <typename T>
using Whole = std::conditional_t<std::is_same_v<T, std::uint64_t>, std::uint64_t, std::int64_t>;

template <typename T>
T element_of(const void* input, std::size_t index, double pre) {
  T value;
  std::memcpy(&value, static_cast<const T*>(input) + index, sizeof(value));
  return pre == 1.0 ? value : scale_integer(value, pre);
}

/// The average of a type narrower than 64 bits never overflows. Sums of int64 and uint64 wrap.
template <typename T>
T scaled_sum(const ReduceCall& call, std::size_t index, std::int64_t divisor) {
  std::uint64_t sum = 0;
  for (const void* const input : call.inputs) {
    sum += static_cast<std::uint64_t>(Whole<T>{element_of<T>(input, index, call.pre)});
  }
  const auto whole = static_cast<Whole<T>>(sum);
  if (divisor != 0) return divide_integer<T>(whole, divisor);
  if (call.post == 1.0) return static_cast<T>(whole);
  return truncate_to<T>(static_cast<double>(whole) * call.post);
}

template <typename T>
T combine(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kProduct:
      return wrapping_product(a, b);
    case ReduceOp::kBitAnd:
      return static_cast<T>(a & b);
    case ReduceOp::kBitOr:
      return static_cast<T>(a | b);
    default:
      return static_cast<T>(a ^ b);
  }
}

template <typename T>
T scaled_result(const ReduceCall& call, std::size_t index) {
  T result = element_of<T>(call.inputs[0], index, call.pre);
  for (const void* const input : call.inputs.subspan(1)) {
    result = combine(call.op, result, element_of<T>(input, index, call.pre));
  }
  return call.post == 1.0 ? result : scale_integer(result, call.post);
}

/// With factors, which few integers have: one element after the other.
template <typename T>
void reduce_scaled(const ReduceCall& call) {
  const bool sums = call.op == ReduceOp::kSum || call.op == ReduceOp::kAverage;
  const std::int64_t divisor = integer_divisor_of(call.post);
  auto* const out = static_cast<T*>(call.out);
  for (std::size_t i = 0; i < call.count; ++i) {
    const T result = sums ? scaled_sum<T>(call, i, divisor) : scaled_result<T>(call, i);
    std::memcpy(out + i, &result, sizeof(result));
  }
}

}  // namespace

void reduce_integer(const ReduceCall& call) {
  const bool scaled = call.pre != 1.0 || call.post != 1.0;
  if (!scaled || call.dtype == DType::kBool) return HWY_DYNAMIC_DISPATCH(reduce_integer_here)(call);
  element::with_type(call.dtype, [&]<typename T>() {
    if constexpr (std::is_integral_v<T>) reduce_scaled<T>(call);
  });
}

}  // namespace ronde::kernels
#endif
