// Sparse allreduces in host memory: rows of equal index are added up over the ranks.
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
#include "ops/communicator/number_exchange.h"
#include "ops/sparse/choice.h"
#include "ops/sparse/row_sums.h"
#include "ops/transfer.h"

namespace ronde {

/// One sparse allreduce. A rank that has joined gives no rows and no allocator.
struct SparseWork {
  const BundleTensor& tensor;  ///< `in`: rows; `splits`: see Submission::splits.
  std::size_t width = 0;       ///< Elements of a row.
  Reduction own = {};          ///< Of this rank's rows of one index.
  Reduction shared = {};       ///< Of the ranks' rows of one index.

  [[nodiscard]] std::size_t row_bytes() const noexcept { return width * size_of(shared.dtype); }
};

/// Over the collectives of another communicator. The result has each index of any rank once, in
/// ascending order, and is the same on all ranks. By keys, a rank sends its rows once and gets the
/// result once: for a given result the bytes do not grow with the number of ranks. Rows of one
/// index are added in ascending order of ranks, but for the dense path. A rank adds its own of one
/// index first where they are float32 or float64; others are sent apart, never by the dense path.
/// Calls for a work: plan(), then run(). Threads: one at a time.
class SparseAllreduce {
 public:
  struct Options {
    int rank = 0;
    int size = 1;
    SparsePath path = SparsePath::kAuto;  ///< The same on all ranks.
  };
  /// `host` and `exchange` outlive it.
  SparseAllreduce(Communicator& host, NumberExchange& exchange,
                  std::shared_ptr<const ReduceKernels> kernels, const Options& options)
      : options_(options),
        size_(static_cast<std::size_t>(options.size)),
        host_(host),
        exchange_(exchange),
        kernels_(std::move(kernels)) {}

  /// Chooses the path, the same on all ranks. Blocks. Errors: kInvalidArgument for an index out of
  /// range or another number of indices, kMismatch for tables of different sizes, on all ranks and
  /// with the group still usable; the exchange's; kAborted where memory is out.
  Result<SparsePath> plan(const SparseWork& work, const AbortToken& abort);
  /// Does the work that was planned last. `phases` may be null. Blocks.
  /// Errors: as Communicator::run; kResourceExhausted where only this rank's output has no memory.
  Status run(const SparseWork& work, PhaseObserver* phases, const AbortToken& abort);

 private:
  /// The result on this rank.
  struct Output {
    std::byte* rows = nullptr;
    std::vector<std::int64_t>* indices = nullptr;
    Status status;  ///< Of the memory. Without it the rank takes part all the same.
  };
  Result<SparsePath> choose(const SparseWork& work, const AbortToken& abort);
  Status dispatch(const SparseWork& work, PhaseObserver* phases, const AbortToken& abort);
  Status by_allgather(const SparseWork& work, PhaseObserver* phases, const AbortToken& abort);
  Status by_keys(const SparseWork& work, PhaseObserver* phases, const AbortToken& abort);
  Status by_table(const SparseWork& work, PhaseObserver* phases, const AbortToken& abort);
  Result<std::vector<std::int64_t>> exchange_counts(const AbortToken& abort);
  Status deal(const SparseWork& work, std::span<const std::int64_t> counts,
              const AbortToken& abort);
  Status gather_sums(const SparseWork& work, const AbortToken& abort);
  Status gather_rows(const SparseWork& work, const AbortToken& abort);
  Status reduce_table(const SparseWork& work, std::byte* table, std::byte* present,
                      const AbortToken& abort);
  /// Writes own groups `first` .. `last` as a block.
  void write_block(const SparseWork& work, std::size_t first, std::size_t last, std::byte* block);
  void sum_own(const SparseWork& work, std::size_t group, std::byte* out);
  /// Adds a block of `count` rows to `received_`.
  void read_block(const SparseWork& work, const std::byte* block, std::size_t count);
  Output output(const SparseWork& work, std::size_t rows);
  Status allgather(std::span<const Segment> segments, const AbortToken& abort);

  const Options options_;
  const std::size_t size_;
  Communicator& host_;
  NumberExchange& exchange_;
  const std::shared_ptr<const ReduceKernels> kernels_;
  Scratch scratch_;
  RowSums own_;
  RowSums received_;
  std::vector<std::int64_t> numbers_;                               // kept
  std::vector<std::int64_t> spare_;                                 // indices that nobody wants
  std::vector<std::size_t> send_bytes_, recv_bytes_, chunk_bytes_;  // kept
  // The planned work.
  SparsePath path_ = SparsePath::kKeys;
  std::int64_t table_rows_ = -1;
  std::vector<IndexSample> samples_;  // by rank
};

}  // namespace ronde
