// Reductions of float16, bfloat16, float32 and float64, for each instruction set.
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
        if (is_mean_of_two(call)) return reduce_loop<MeanOfTwoFloats, Sum, 2, true>(call);
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
