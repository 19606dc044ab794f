// Turns agreed bundles into work: sizes, extents and outputs of their tensors, as segments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/abort.h"
#include "core/base/status.h"
#include "core/ports/communicator.h"
#include "core/ports/executor.h"
#include "core/ports/reduce_kernels.h"
#include "ops/communicator/number_exchange.h"

namespace ronde {

/// The reduction that `ranks` ranks compute for a request; kAverage becomes a sum, divided:
/// - float32, float64: the sum is divided by ranks / postscale where that is a whole number (see
///   divisor_of() in ops/kernels/scalar.h), else multiplied by postscale / ranks. The sum is wider:
///   see is_rounded_once().
/// - 8- and 16-bit floating types: inputs are multiplied by 2^-k, k = ceil(log2 ranks), and the sum
///   by postscale * 2^k / ranks, all in fp32 with one rounding. No average overflows whose value
///   can be represented.
/// - integers: every input times prescale, truncated towards zero; the sum of 64 bits (int32
/// between
///   ranks for 8- and 16-bit types) times postscale / ranks, truncated towards zero. That factor is
///   rounded away from zero, so that the average of equal values is that value.
/// - bool: "or"; factors are ignored.
/// Sums of float32 are multiplied by postscale as a float32, unless it divides by a whole number.
/// An Adasum of one rank is its sum.
Reduction reduction_for(const ReductionRequest& request, int ranks) noexcept;

/// Plans one bundle after another; the vectors' memory is used again. Beyond Executor's contract:
/// - allgather, gather: first extents are exchanged, so they may differ; a tensor without
///   dimensions counts as one row.
/// - alltoall: splits are exchanged; wrong ones are an error on all ranks, see extents.h.
/// - reduce_scatter: rank r of n gets rows/n rows and the first rows%n ranks one more.
/// - Outputs that only the root writes are asked of `allocate` at the root alone.
/// Threads: one at a time.
class OutputPlanner {
 public:
  /// `exchange` outlives it.
  OutputPlanner(NumberExchange& exchange, int rank, int size)
      : exchange_(exchange), rank_(rank), size_(size) {}

  /// Plans a bundle. Blocks where ranks have sizes to exchange.
  /// Errors: kInvalidArgument where sizes do not fit, the same on all ranks; the exchange's.
  Status plan(const Bundle& bundle, const AbortToken& abort);
  /// Works of the planned bundle: one for each tensor of an alltoall, else one.
  [[nodiscard]] std::size_t works() const noexcept { return works_; }
  /// One of them, valid until the next call of plan() or work().
  Work work(const Bundle& bundle, std::size_t index);
  /// The error of the first output of the bundle that could not be allocated. The rank takes part
  /// without it, so that the group stays usable.
  [[nodiscard]] const Status& allocation() const noexcept { return allocation_; }

 private:
  void plan_whole(const Bundle& bundle);
  Status plan_reduce_scatter(const Bundle& bundle);
  void plan_scatter(const Bundle& bundle);
  Status plan_gathering(const Bundle& bundle, const AbortToken& abort);
  Status plan_alltoall(const Bundle& bundle, const AbortToken& abort);
  void add_gathered(const Bundle& bundle, std::size_t index, std::span<const std::int64_t> rows);
  void place_alltoall(const Bundle& bundle, std::size_t index);
  void add(const Segment& segment);

  [[nodiscard]] bool is_root(const Bundle& bundle) const { return rank_ == bundle.root; }
  std::byte* output(const BundleTensor& tensor, const Shape& shape);
  std::byte* output_rows(const BundleTensor& tensor, std::int64_t rows);

  NumberExchange& exchange_;
  const int rank_;
  const int size_;
  // The planned bundle.
  std::size_t works_ = 0;
  std::size_t bytes_ = 0;  // of the whole operation
  Status allocation_;
  std::vector<Segment> segments_;
  std::vector<std::size_t> chunk_bytes_, send_bytes_, recv_bytes_;
  std::vector<std::int64_t> mine_;                 // extents or splits of this rank
  std::vector<std::vector<std::int64_t>> splits_;  // alltoall: by tensor, those of all ranks
};

/// Makes a reducer.
std::unique_ptr<PayloadReducer> create_payload_reducer(
    std::shared_ptr<const ReduceKernels> kernels);

}  // namespace ronde
