// Computes drawn elements of allreduces once more, from all ranks' inputs, and compares.
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
#include "ops/execution/sum_witness.h"

namespace ronde {

/// The settings of the check.
struct SumCheckOptions {
  std::uint64_t every = 0;                   ///< One of so many allreduces, drawn; from 1.
  std::shared_ptr<SumWitness> witness = {};  ///< This rank's kernels; may be null.
  std::vector<int> ranks = {};  ///< Of the job, in the group's order; empty: they are the same.
};

/// Calls for a work: begin(), then end() once it has run, or drop() if it has failed. All ranks
/// draw the same elements. Threads: one at a time.
class SumCheck {
 public:
  /// Elements that are looked at: neighbours, in one tensor.
  static constexpr std::size_t kSample = 256;

  /// `exchange` outlives it.
  SumCheck(SumCheckOptions options, std::shared_ptr<const ReduceKernels> kernels,
           NumberExchange& exchange, int size)
      : options_(std::move(options)),
        kernels_(std::move(kernels)),
        exchange_(exchange),
        size_(static_cast<std::size_t>(size)) {}

  /// True if the bundle may be drawn: an allreduce in host memory that is not compressed, but for
  /// products of floating types. The same on all ranks.
  [[nodiscard]] static bool applies(const Bundle& bundle) noexcept;

  /// Draws. Returns false if this work is left alone; the same on all ranks.
  bool begin(const Work& work);
  /// Compares. Blocks while ranks exchange the elements. Errors: kCorrupted, the same on all ranks;
  /// those of the exchange.
  Status end(const Bundle& bundle, const Work& work, const AbortToken& abort);
  /// Forgets what is drawn. Does not block.
  void drop(const Work& work);

 private:
  [[nodiscard]] OwnElements own(const Work& work) const;
  /// The numbers that a rank gives the others.
  [[nodiscard]] std::vector<std::int64_t> pack(const std::byte* result, bool blamed) const;
  Status judge(const Bundle& bundle, const Reduction& what, std::span<const std::int64_t> all);
  [[nodiscard]] int job_rank(std::size_t rank) const {
    return options_.ranks.empty() ? static_cast<int>(rank) : options_.ranks[rank];
  }

  const SumCheckOptions options_;
  const std::shared_ptr<const ReduceKernels> kernels_;
  NumberExchange& exchange_;
  const std::size_t size_;
  std::uint64_t works_ = 0;
  // The sample at hand.
  std::size_t segment_ = 0;
  std::size_t first_ = 0;  // element
  std::size_t count_ = 0;
  std::vector<std::byte> input_;
};

}  // namespace ronde
