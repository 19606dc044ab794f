#include "ops/compression/sparse/momentum.h"

#include <cmath>

namespace ronde {

void clip_locally(double clip, std::size_t ranks, std::span<float> values) {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  const double norm = std::sqrt(squares), limit = clip / std::sqrt(static_cast<double>(ranks));
  if (!std::isfinite(norm) || norm <= limit) return;
  const auto scale = static_cast<float>(limit / norm);
  for (float& value : values) value *= scale;
}

void correct_momentum(double momentum, bool nesterov, std::span<float> velocity,
                      std::span<float> values) {
  const auto m = static_cast<float>(momentum);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float gradient = values[i];
    velocity[i] = nesterov ? m * (velocity[i] + gradient) : m * velocity[i] + gradient;
    values[i] = nesterov ? velocity[i] + gradient : velocity[i];
  }
}

}  // namespace ronde
