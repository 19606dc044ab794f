// Computes allreduces whose data travels with their agreement. Implemented in ops/ and injected
// into the negotiation.
#pragma once

#include <cstddef>
#include <span>

#include "core/base/dtype.h"

namespace ronde {

/// How one reduction is asked for.
struct ReductionRequest {
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  double prescale = 1.0;
  double postscale = 1.0;
};

/// Threads: any; stateless.
class PayloadReducer {
 public:
  virtual ~PayloadReducer() = default;

  /// Computes the allreduce of all ranks' `inputs` in ascending order of ranks, rounded once. Gives
  /// the bits that deterministic mode gives. The operator is element-wise and defined for the
  /// dtype. `count` in elements. No alignment is needed.
  virtual void reduce(const ReductionRequest& request, std::span<const void* const> inputs,
                      void* out, std::size_t count) const noexcept = 0;
};

}  // namespace ronde
