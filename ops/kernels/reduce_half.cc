// Reductions of float16 and bfloat16, for each instruction set.
#include "ops/kernels/entries.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/kernels/reduce_half.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "ops/kernels/half_inl.h"
#include "ops/kernels/loops_inl.h"

HWY_BEFORE_NAMESPACE();
namespace ronde::kernels::HWY_NAMESPACE {

void reduce_half_here(const ReduceCall& call) {
  if (call.dtype == DType::kFloat16) return reduce_floating<Float16>(call);
  return reduce_floating<Bfloat16>(call);
}

}  // namespace ronde::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ronde::kernels {

HWY_EXPORT(reduce_half_here);
void reduce_half(const ReduceCall& call) { HWY_DYNAMIC_DISPATCH(reduce_half_here)(call); }

}  // namespace ronde::kernels
#endif
