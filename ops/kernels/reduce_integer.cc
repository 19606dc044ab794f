// Reductions of integers and bool, for each instruction set.
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

/// The bits do not depend on the type, but scaling does.
template <class E>
void reduce_bits(const ReduceCall& call) {
  switch (call.op) {
    case ReduceOp::kBitAnd:
      return reduce_loop<E, BitAnd, 0, true>(call);
    case ReduceOp::kBitOr:
      return reduce_loop<E, BitOr, 0, true>(call);
    default:
      return reduce_loop<E, BitXor, 0, true>(call);
  }
}

/// The sum of a type: of 64 bits.
template <typename T>
using Whole = std::conditional_t<std::is_same_v<T, std::uint64_t>, std::uint64_t, std::int64_t>;

/// The average of a type narrower than 64 bits never overflows. Sums of int64 and uint64 wrap.
template <typename T>
void reduce_scaled_sum(const ReduceCall& call) {
  const std::int64_t divisor = integer_divisor_of(call.post);
  auto* const out = static_cast<T*>(call.out);
  for (std::size_t i = 0; i < call.count; ++i) {
    std::uint64_t sum = 0;
    for (const void* const input : call.inputs) {
      T value;
      std::memcpy(&value, static_cast<const T*>(input) + i, sizeof(value));
      if (call.pre != 1.0) value = scale_integer(value, call.pre);
      sum += static_cast<std::uint64_t>(Whole<T>{value});
    }
    const auto whole = static_cast<Whole<T>>(sum);
    const T result = divisor != 0 ? divide_integer<T>(whole, divisor)
                                  : truncate_to<T>(static_cast<double>(whole) * call.post);
    std::memcpy(out + i, &result, sizeof(result));
  }
}

template <typename T>
void reduce_numbers(const ReduceCall& call) {
  using E = Plain<T>;
  switch (call.op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      if (call.post != 1.0) return reduce_scaled_sum<T>(call);
      return reduce_loop<E, Sum, 0, true>(call);
    case ReduceOp::kMin:
      return reduce_loop<E, Min, 0, true>(call);
    case ReduceOp::kMax:
      return reduce_loop<E, Max, 0, true>(call);
    case ReduceOp::kProduct:
      return reduce_loop<E, Product, 0, true>(call);
    default:
      return reduce_bits<E>(call);
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
  switch (call.dtype) {
    case DType::kUint8:
      return reduce_numbers<std::uint8_t>(call);
    case DType::kInt8:
      return reduce_numbers<std::int8_t>(call);
    case DType::kInt16:
      return reduce_numbers<std::int16_t>(call);
    case DType::kInt32:
      return reduce_numbers<std::int32_t>(call);
    case DType::kInt64:
      return reduce_numbers<std::int64_t>(call);
    case DType::kUint16:
      return reduce_numbers<std::uint16_t>(call);
    case DType::kUint32:
      return reduce_numbers<std::uint32_t>(call);
    case DType::kUint64:
      return reduce_numbers<std::uint64_t>(call);
    default:
      return reduce_bool(call);
  }
}

}  // namespace ronde::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ronde::kernels {

HWY_EXPORT(reduce_integer_here);
void reduce_integer(const ReduceCall& call) { HWY_DYNAMIC_DISPATCH(reduce_integer_here)(call); }

}  // namespace ronde::kernels
#endif
