// The updates of torch's SGD, Adam and AdamW, and sums of squares, for each instruction set.
#include "ops/kernels/optimizer.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/kernels/optimizer.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "ops/kernels/double_inl.h"

HWY_BEFORE_NAMESPACE();
namespace ronde::kernels::HWY_NAMESPACE {

using UpdateD = hn::ScalableTag<float>;
using UpdateV = hn::Vec<UpdateD>;

static_assert(kUpdateStep % hn::MaxLanes(UpdateD()) == 0);

HWY_INLINE UpdateV all(float value) { return hn::Set(UpdateD(), value); }
HWY_INLINE UpdateV at(const float* from) { return load_unaligned(UpdateD(), from); }
HWY_INLINE void put(UpdateV v, float* to) { store_unaligned(v, UpdateD(), to); }

/// The scaled gradient, with the decay of weights where it is a part of it.
HWY_INLINE UpdateV decayed(const float* gradient, UpdateV scale, UpdateV decay, UpdateV value) {
  return hn::Add(hn::Mul(at(gradient), scale), hn::Mul(decay, value));
}

void update_sgd_here(const SgdUpdate& how, std::span<const float> gradient, float* values,
                     float* momentum) {
  const UpdateV scale = all(how.gradient_scale);
  const UpdateV decay = all(how.weight_decay);
  const UpdateV keep = all(how.momentum);
  const UpdateV rate = all(how.learning_rate);
  for (std::size_t i = 0; i < gradient.size(); i += hn::Lanes(UpdateD())) {
    const UpdateV value = at(values + i);
    UpdateV g = decayed(gradient.data() + i, scale, decay, value);
    if (momentum != nullptr) {
      const UpdateV next = hn::Add(hn::Mul(keep, at(momentum + i)), g);
      put(next, momentum + i);
      g = how.nesterov ? hn::Add(g, hn::Mul(keep, next)) : next;
    }
    put(hn::Sub(value, hn::Mul(rate, g)), values + i);
  }
}

void update_adam_here(const AdamUpdate& how, std::span<const float> gradient, float* values,
                      float* mean, float* variance) {
  const UpdateV scale = all(how.gradient_scale);
  const UpdateV decay = all(how.weight_decay);
  const UpdateV keep = all(how.keep);
  const UpdateV mean_weight = all(how.mean_weight);
  const UpdateV beta2 = all(how.beta2);
  const UpdateV variance_weight = all(how.variance_weight);
  const UpdateV step_size = all(how.step_size);
  const UpdateV correction = all(how.root_correction);
  const UpdateV epsilon = all(how.epsilon);
  for (std::size_t i = 0; i < gradient.size(); i += hn::Lanes(UpdateD())) {
    const UpdateV value = at(values + i);
    const UpdateV g = decayed(gradient.data() + i, scale, decay, value);
    const UpdateV old = at(mean + i);
    const UpdateV m = hn::Add(old, hn::Mul(mean_weight, hn::Sub(g, old)));
    const UpdateV squared = hn::Mul(hn::Mul(variance_weight, g), g);
    const UpdateV v = hn::Add(hn::Mul(at(variance + i), beta2), squared);
    const UpdateV root = hn::Add(hn::Div(hn::Sqrt(v), correction), epsilon);
    put(m, mean + i);
    put(v, variance + i);
    put(hn::Sub(hn::Mul(value, keep), hn::Div(hn::Mul(step_size, m), root)), values + i);
  }
}

DoubleDouble sum_of_squares_here(std::span<const float> values) {
  const D64 d;
  F64 sum = hn::Zero(d);
  F64 error = hn::Zero(d);
  for (std::size_t i = 0; i < values.size(); i += hn::Lanes(d)) {
    const F64 v = fp32_to_fp64(values.data() + i);
    const Rounded next = exact_sum(sum, hn::Mul(v, v));  // the product is exact
    sum = next.value;
    error = hn::Add(error, next.error);
  }
  HWY_ALIGN double sums[hn::MaxLanes(D64())];
  HWY_ALIGN double errors[hn::MaxLanes(D64())];
  hn::Store(sum, d, sums);
  hn::Store(error, d, errors);
  double plain = 0;
  for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) plain += sums[lane];
  if (!std::isfinite(plain)) return {plain, 0};  // errors are NaN
  DoubleDouble total{0, 0};
  for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) {
    total = total + DoubleDouble{sums[lane], 0} + DoubleDouble{errors[lane], 0};
  }
  return total;
}

}  // namespace ronde::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ronde::kernels {

HWY_EXPORT(update_sgd_here);
HWY_EXPORT(update_adam_here);
HWY_EXPORT(sum_of_squares_here);

void update_sgd(const SgdUpdate& how, std::span<const float> gradient, float* values,
                float* momentum) {
  HWY_DYNAMIC_DISPATCH(update_sgd_here)(how, gradient, values, momentum);
}

void update_adam(const AdamUpdate& how, std::span<const float> gradient, float* values, float* mean,
                 float* variance) {
  HWY_DYNAMIC_DISPATCH(update_adam_here)(how, gradient, values, mean, variance);
}

DoubleDouble sum_of_squares(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(sum_of_squares_here)(values);
}

}  // namespace ronde::kernels
#endif
