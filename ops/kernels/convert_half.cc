// float16 and bfloat16 to fp32 and back, and reductions that stay in fp32, for each instruction
// set.
#include "ops/kernels/entries.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/kernels/convert_half.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "ops/kernels/half_inl.h"
#include "ops/kernels/loops_inl.h"

HWY_BEFORE_NAMESPACE();
namespace ronde::kernels::HWY_NAMESPACE {

using Fp32 = Plain<float>;

/// One fp32 vector at a time, in memory order, of a 16-bit type.
template <class Half>
struct InOrder {
  using Elem = std::uint16_t;
  using V = F32;
  static HWY_INLINE V load(const Elem* from) { return Half::widen(from); }
  static HWY_INLINE void store(V v, Elem* to) { Half::narrow(v, to); }
};

template <class Half, class Op>
void accumulate(const AccumulateCall& call) {
  const auto* in = static_cast<const std::uint16_t*>(call.input);
  const std::size_t step = Fp32::step();
  std::size_t i = 0;
  for (; i + step <= call.count; i += step) {
    const F32 v = Fp32::scale(Half::widen(in + i), call.pre);
    Fp32::store(Op::apply(D32(), Fp32::load(call.partial + i), v), call.out + i);
  }
  if (i == call.count) return;
  const std::size_t rest = call.count - i;
  const F32 v = Fp32::scale(load_some<InOrder<Half>>(in + i, rest), call.pre);
  store_some<Fp32>(Op::apply(D32(), load_some<Fp32>(call.partial + i, rest), v), call.out + i,
                   rest);
}

template <class Half>
void accumulate_any(const AccumulateCall& call) {
  switch (call.op) {
    case ReduceOp::kMin:
      return accumulate<Half, Min>(call);
    case ReduceOp::kMax:
      return accumulate<Half, Max>(call);
    case ReduceOp::kProduct:
      return accumulate<Half, Product>(call);
    default:
      return accumulate<Half, Sum>(call);
  }
}

void accumulate_half_here(const AccumulateCall& call) {
  if (call.dtype == DType::kFloat16) return accumulate_any<Float16>(call);
  return accumulate_any<Bfloat16>(call);
}

void widen_half_here(DType from, const void* in, float* out, std::size_t count) {
  const auto* halves = static_cast<const std::uint16_t*>(in);
  if (from == DType::kFloat16) return convert<InOrder<Float16>, Fp32>(halves, out, count);
  return convert<InOrder<Bfloat16>, Fp32>(halves, out, count);
}

void narrow_half_here(const float* in, DType to, void* out, std::size_t count) {
  auto* halves = static_cast<std::uint16_t*>(out);
  if (to == DType::kFloat16) return convert<Fp32, InOrder<Float16>>(in, halves, count);
  return convert<Fp32, InOrder<Bfloat16>>(in, halves, count);
}

}  // namespace ronde::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ronde::kernels {

HWY_EXPORT(accumulate_half_here);
HWY_EXPORT(widen_half_here);
HWY_EXPORT(narrow_half_here);

void accumulate_half(const AccumulateCall& call) {
  HWY_DYNAMIC_DISPATCH(accumulate_half_here)(call);
}

void widen_half(DType from, const void* in, float* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(widen_half_here)(from, in, out, count);
}

void narrow_half(const float* in, DType to, void* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(narrow_half_here)(in, to, out, count);
}

std::string target_name() {
  const std::int64_t usable = HWY_TARGETS & hwy::SupportedTargets();
  const std::string name = hwy::TargetName(usable & -usable);  // lower bits are better
  return name.starts_with("AVX3") ? "AVX-512" : name;          // Highway's name for it
}

}  // namespace ronde::kernels
#endif
