// Finds the values that are not finite in the reductions of one group, and agrees with all its
// ranks on whose they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/abort.h"
#include "core/base/status.h"
#include "core/ports/communicator.h"
#include "core/ports/executor.h"
#include "core/ports/value_watch.h"
#include "ops/communicator/number_exchange.h"

namespace ronde {

/// The part of the search that a work's path does.
struct WatchedPath {
  bool shows_values = false;  ///< As CommunicatorTraits::watches.
  bool same_bits = false;     ///< All ranks get the same results.
  bool lossy = false;         ///< Results may hide what is not finite.
};

/// Calls for a work: begin(), then end() once it has run. Inputs that the work overwrites are
/// looked at before, results after it, and other inputs only if a result is odd. One exchange of
/// all ranks tells them of it, unless all know; another one, only then, whose it is.
/// Threads: one at a time.
class NonfiniteCheck {
 public:
  /// `exchange` outlives it.
  NonfiniteCheck(std::shared_ptr<const ReduceKernels> kernels, NumberExchange& exchange, int rank,
                 int size)
      : kernels_(std::move(kernels)),
        exchange_(exchange),
        watch_(*kernels_),
        rank_(rank),
        size_(static_cast<std::size_t>(size)) {}

  /// True if the bundle's values are looked at: a reduction of a floating type in host memory.
  [[nodiscard]] static bool applies(const Bundle& bundle) noexcept;

  /// The work as it is to run. Valid until the next call.
  Work begin(const Work& work, const WatchedPath& path);
  /// Gives BundleTensor::finding of each tensor what the work has found, the same on all ranks.
  /// Blocks where ranks agree. Errors: those of the exchange.
  Status end(const Bundle& bundle, const AbortToken& abort);

  /// Looks at the result of an allreduce that came with the agreement, while inputs are untouched.
  void look_at(const Work& work, const std::vector<std::byte>& result);

 private:
  void look_at_inputs();
  void look_at_results();
  [[nodiscard]] bool overwrites_inputs() const;
  [[nodiscard]] std::size_t first_byte(std::size_t segment) const;
  Result<bool> found_anywhere(const AbortToken& abort);
  Status agree(const Bundle& bundle, const AbortToken& abort);

  const std::shared_ptr<const ReduceKernels> kernels_;
  NumberExchange& exchange_;
  ValueWatch watch_;
  const int rank_;
  const std::size_t size_;
  // The work at hand.
  Work work_;
  WatchedPath path_;
  bool inputs_seen_ = false;
  std::vector<Segment> segments_;
  std::vector<std::byte> unwanted_;  // results that this rank has no output for
};

}  // namespace ronde
