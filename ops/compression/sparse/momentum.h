// Momentum correction and local clipping of topk. A rank adds the result, instead of the gradient,
// to its residual. Source: Lin et al., "Deep Gradient Compression", ICLR 2018, and the authors'
// code.
#pragma once

#include <span>

#include "ops/compression/spec.h"

namespace ronde {

/// Scales values down to a norm of clip / sqrt(ranks) if theirs is larger: `ranks` such vectors of
/// random directions add up to a norm of about `clip`. A norm that is not finite changes nothing.
void clip_locally(double clip, std::size_t ranks, std::span<float> values);

/// velocity <- m * velocity + values; values <- velocity.
/// nesterov: velocity <- m * (velocity + values); values <- velocity + values.
void correct_momentum(double momentum, bool nesterov, std::span<float> velocity,
                      std::span<float> values);

}  // namespace ronde
