// Reductions of float64, for each instruction set.
#include "ops/kernels/entries.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/kernels/reduce_float64.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "ops/kernels/loops_inl.h"

HWY_BEFORE_NAMESPACE();
namespace ronde::kernels::HWY_NAMESPACE {

void reduce_float64_here(const ReduceCall& call) { reduce_floating<Plain<double>>(call); }

}  // namespace ronde::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ronde::kernels {

HWY_EXPORT(reduce_float64_here);
void reduce_float64(const ReduceCall& call) { HWY_DYNAMIC_DISPATCH(reduce_float64_here)(call); }

}  // namespace ronde::kernels
#endif
