// Gradient lists of models, to replay.
#pragma once

#include <string_view>
#include <vector>

#include "core/base/tensor.h"

namespace ronde::bench {

/// Shapes of a model's parameters in the order of its layers; empty for an unknown model.
/// "resnet50": 161 tensors, 25,557,032 elements.
std::vector<Shape> model_shapes(std::string_view model);

}  // namespace ronde::bench
