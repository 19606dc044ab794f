// Element-wise arithmetic on host memory. Implemented with SIMD in ops/kernels and injected into
// the backends that reduce, so that no backend includes ops.
#pragma once

#include <cstddef>
#include <span>

#include "core/base/dtype.h"

namespace ronde {

/// Factors applied around a reduction. `pre` of floating types: a product in fp32 (8- and 16-bit
/// types) or their own precision. `pre` of integers: a product in fp64, truncated towards zero, as
/// Horovod does; what does not fit saturates. A `post` that is the reciprocal of a whole number
/// divides. A factor of 1 changes no bit. bool ignores both.
struct Scaling {
  double pre = 1.0;   ///< On every input, before it is combined.
  double post = 1.0;  ///< On the combined value.
};

/// The computation for each element.
struct Reduction {
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;  ///< kAverage is not seen here: it is a sum with a Scaling.
  Scaling scaling;
  /// float32 and float64: a sum of several inputs is rounded once, though `post` is 1. For the
  /// partial sums of an average.
  bool rounds_once = false;
};

/// True for sums of float32 and float64 that are rounded once: those of averages.
constexpr bool is_rounded_once(const Reduction& what) noexcept {
  const bool wide = what.dtype == DType::kFloat32 || what.dtype == DType::kFloat64;
  return wide && what.op == ReduceOp::kSum && (what.rounds_once || what.scaling.post != 1.0);
}

/// Threads: any; stateless.
class ReduceKernels {
 public:
  virtual ~ReduceKernels() = default;

  /// out[i] = post * (pre*in0[i] op pre*in1[i] op ...), in the order of `inputs` from the left,
  /// one pass over memory. 8- and 16-bit floating types are accumulated in fp32 and rounded once,
  /// to nearest even. A sum that is_rounded_once() is kept in fp64 (float32), or as two fp64
  /// numbers (float64): the average of equal values is that value. Integer sums that are scaled
  /// have 64 bits; the result is truncated towards zero and saturates. Others wrap. NaN in any
  /// input gives NaN, min and max included. bool: sum and max are "or", product and min are "and".
  /// One input is allowed (a scaled copy). `out` may equal any one of the inputs, and may overlap
  /// none in another way. No alignment is needed. `count` in elements; 0 does nothing.
  virtual void reduce(const Reduction& what, std::span<const void* const> inputs, void* out,
                      std::size_t count) const noexcept = 0;

  /// As reduce, written past the caches where that is faster: for outputs larger than the cache
  /// that are not read again soon. Same bits.
  virtual void reduce_streaming(const Reduction& what, std::span<const void* const> inputs,
                                void* out, std::size_t count) const noexcept = 0;

  /// out[i] = partial[i] op pre*input[i] in fp32 without rounding to `what.dtype` (8- and 16-bit
  /// floating types only): for reductions over several ranks that must round once. `out` may equal
  /// `partial`. `post` is not applied.
  virtual void accumulate_fp32(const Reduction& what, const float* partial, const void* input,
                               float* out, std::size_t count) const noexcept = 0;

  /// Converts `count` elements: to floating types to nearest even, rounded once; from them to
  /// integers towards zero, saturating; between integers modulo the width; to bool "is not zero".
  virtual void cast(DType from, const void* in, DType to, void* out,
                    std::size_t count) const noexcept = 0;

  /// The index of the first element that is NaN, or infinite unless `only_nan`; `count` where there
  /// is none, as in other than floating types. No alignment is needed.
  [[nodiscard]] virtual std::size_t first_nonfinite(DType dtype, const void* data,
                                                    std::size_t count,
                                                    bool only_nan) const noexcept = 0;
};

/// How one allreduce is asked for.
struct ReductionRequest {
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  double prescale = 1.0;
  double postscale = 1.0;
};

/// Computes allreduces whose data travels with their agreement. Threads: any; stateless.
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
