// Momentum correction and local clipping of top-k: what a rank adds to its residual instead of the
// gradient. Source: Lin et al., "Deep Gradient Compression", ICLR 2018, and the authors' code.
#pragma once

#include <span>

#include "ops/compression/spec.h"

namespace ronde {

/// Scales values down to a norm of clip / sqrt(ranks) where theirs is larger: `ranks` such vectors
/// that point anywhere add up to one of about `clip`. Leaves what is not finite as it is.
void clip_locally(double clip, std::size_t ranks, std::span<float> values);

/// velocity <- m * velocity + values; values <- velocity.
/// nesterov: velocity <- m * (velocity + values); values <- velocity + values.
void correct_momentum(double momentum, bool nesterov, std::span<float> velocity,
                      std::span<float> values);

}  // namespace ronde
