// Updates of optimizers on float32, with SIMD chosen at run time for this CPU. All instruction sets
// give the same bits.
#pragma once

#include <cstddef>
#include <span>

#include "ops/kernels/double_double.h"

namespace ronde::kernels {

/// Counts of elements are multiples of it, so that no kernel has a ragged end.
inline constexpr std::size_t kUpdateStep = 64;

/// One step of gradient descent: the gradient g is scaled, then gets weight_decay * value.
struct SgdUpdate {
  float gradient_scale = 1;
  float learning_rate = 0;
  float momentum = 0;
  float weight_decay = 0;
  bool nesterov = false;
};

/// One step of Adam or AdamW: g as above; values are first multiplied by `keep`.
struct AdamUpdate {
  float gradient_scale = 1;
  float weight_decay = 0;
  float keep = 1;
  float mean_weight = 0;  ///< 1 - beta1
  float beta2 = 0;
  float variance_weight = 0;  ///< 1 - beta2
  float step_size = 0;        ///< learning rate / (1 - beta1^t)
  float root_correction = 1;  ///< sqrt(1 - beta2^t)
  float epsilon = 0;
};

/// momentum: as many elements as the gradient; null where how.momentum is 0.
void update_sgd(const SgdUpdate& how, std::span<const float> gradient, float* values,
                float* momentum);
void update_adam(const AdamUpdate& how, std::span<const float> gradient, float* values, float* mean,
                 float* variance);

/// The sum of squares, with about 100 bits: it does not depend on how elements are dealt to calls.
/// That of infinity is infinity; that of NaN is NaN.
DoubleDouble sum_of_squares(std::span<const float> values);

}  // namespace ronde::kernels
