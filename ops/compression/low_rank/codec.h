// powersgd: its row, and how many elements of a tensor it sends. low_rank/allreduce.h sends them.
#pragma once

#include <cstddef>

#include "core/base/tensor.h"
#include "ops/compression/registry.h"

namespace ronde {

/// Matrices as products of two thin ones. Source: Vogels et al., "PowerSGD", NeurIPS 2019.
extern const CodecRow kPowersgdCodec;

/// Elements of a tensor's factors; all of its elements if factors do not save half of them.
double low_rank_elements(const Shape& shape, std::size_t rank);

}  // namespace ronde
