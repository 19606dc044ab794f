// fp32 to fp64 and back, for each instruction set.
#include "ops/kernels/entries.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/kernels/convert_double.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "ops/kernels/loops_inl.h"
#include "ops/kernels/mean_inl.h"

HWY_BEFORE_NAMESPACE();
namespace ronde::kernels::HWY_NAMESPACE {

struct OddFloat : WideFloat {
  static HWY_INLINE void store(V v, Elem* to) {
    store_unaligned(fp64_to_odd_fp32(v), Narrow32(), to);
  }
};

void widen_float_here(const float* in, double* out, std::size_t count) {
  convert<WideFloat, Plain<double>>(in, out, count);
}

void narrow_double_here(const double* in, float* out, std::size_t count) {
  convert<Plain<double>, WideFloat>(in, out, count);
}

void narrow_double_to_odd_here(const double* in, float* out, std::size_t count) {
  convert<Plain<double>, OddFloat>(in, out, count);
}

}  // namespace ronde::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ronde::kernels {

HWY_EXPORT(widen_float_here);
HWY_EXPORT(narrow_double_here);
HWY_EXPORT(narrow_double_to_odd_here);

void widen_float(const float* in, double* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(widen_float_here)(in, out, count);
}

void narrow_double(const double* in, float* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(narrow_double_here)(in, out, count);
}

void narrow_double_to_odd(const double* in, float* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(narrow_double_to_odd_here)(in, out, count);
}

}  // namespace ronde::kernels
#endif
