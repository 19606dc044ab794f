// Weighted averages: each rank multiplies its inputs by its shares of the weights. The sum of all
// ranks' products is the mean.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "core/ports/communicator.h"
#include "core/ports/executor.h"
#include "core/ports/reduce_kernels.h"
#include "ops/transfer.h"

namespace ronde {

/// Turns the work of a weighted bundle in host memory into a sum of products. Products of 8- and
/// 16-bit types are fp32 and are added so, unless the bundle is compressed. Calls for a work:
/// begin(), then end() once it has run. Threads: one at a time.
class Weighting {
 public:
  explicit Weighting(std::shared_ptr<const ReduceKernels> kernels) : kernels_(std::move(kernels)) {}

  /// The sum of products, valid until the next call. Products lie in the outputs, or in memory of
  /// its own where they are wider or this rank has no output.
  Work begin(const Bundle& bundle, Work work);
  /// Rounds wide results to the outputs of `work`, which begin() was given.
  void end(const Bundle& bundle, const Work& work);

 private:
  const std::shared_ptr<const ReduceKernels> kernels_;
  Scratch scratch_;
  std::vector<Segment> products_;
};

/// The reduction of products of type `dtype`, in host or device memory.
Reduction sum_of_products(const Bundle& bundle, DType dtype);
/// The factor of this rank's input.
double product_factor(const Bundle& bundle, const BundleTensor& tensor);

}  // namespace ronde
