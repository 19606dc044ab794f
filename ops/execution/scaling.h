// What prescale, postscale and averaging become: factors before and after a sum.
#pragma once

#include "core/base/dtype.h"
#include "core/ports/reduce_kernels.h"

namespace ronde {

/// How one reduction is asked for.
struct ReductionRequest {
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  double prescale = 1.0;
  double postscale = 1.0;
};

/// The reduction that `ranks` ranks compute for a request; kAverage becomes a sum, divided:
/// - float32, float64: the sum is multiplied by postscale / ranks, or divided by ranks where that
/// is
///   the same (see divisor_of() in ops/kernels/scalar.h).
/// - 8- and 16-bit floating types: inputs are multiplied by 2^-k, k = ceil(log2 ranks), and the sum
/// by
///   postscale * 2^k / ranks, all in fp32 with one rounding: no average overflows whose value can
///   be represented.
/// - integers, as Horovod: every input times prescale, and the sum times postscale / ranks, each
///   computed in fp64 and truncated towards zero. The factor postscale / ranks is rounded away
///   from zero, so that the average of equal values is that value (49 ranks holding 1 give 1).
/// - bool: "or"; factors are ignored.
Reduction reduction_for(const ReductionRequest& request, int ranks) noexcept;

}  // namespace ronde
