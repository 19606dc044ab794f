// powersgd: which of a tensor's elements travel as two thin matrices. low_rank/allreduce.h sends
// them.
#pragma once

#include <cstddef>

#include "core/base/shape.h"
#include "ops/compression/registry.h"

namespace ronde {

/// Matrices as products of two thin ones. Source: Vogels et al., "PowerSGD", NeurIPS 2019.
extern const CodecRow kPowersgdCodec;

/// Elements that a tensor has as a product of matrices of a rank; all where that does not pay.
double low_rank_elements(const Shape& shape, std::size_t rank);

}  // namespace ronde
