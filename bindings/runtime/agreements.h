// What ranks tell each other before they act: values, outcomes, ids.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/engine/engine.h"
#include "core/ports/backend.h"

namespace ronde {

/// Makes an exchange of `ranks` under a key that they use for nothing else.
using MakeExchange = std::function<std::unique_ptr<Exchange>(
    std::uint64_t key, const std::vector<int>& ranks, const WaitOptions& options)>;

/// Exchanges values between all ranks of a job. Calls match in order. Threads: any.
class Agreements {
 public:
  /// `everyone`: all ranks of the job, ascending.
  Agreements(MakeExchange make, std::vector<int> everyone)
      : make_(std::move(make)), everyone_(std::move(everyone)) {}

  /// Waits until all ranks ask for the same change of the process sets ("add ranks 0, 1").
  /// Errors: kMismatch naming two ranks with what they ask for.
  Status agree(const std::string& change, const WaitOptions& options);
  /// Returns the first error of any rank; this rank's own where it has one.
  Status share_outcome(const Status& mine, const WaitOptions& options);

 private:
  std::unique_ptr<Exchange> next_exchange(const WaitOptions& options);

  const MakeExchange make_;
  const std::vector<int> everyone_;
  std::atomic<std::uint64_t> rounds_{0};
};

/// Gives all of `ranks`, the members of `exchange`, the first error of any; a rank with an error
/// gets its own. Others' errors are kUnavailable naming the rank.
Status first_error(Exchange& exchange, const std::vector<int>& ranks, const Status& mine);

/// Agrees with `ranks`, the members of `exchange`, on the largest `least` of any.
/// Errors: kMismatch where their names for the set differ.
Result<SetId> agree_on_id(Exchange& exchange, const std::vector<int>& ranks,
                          const std::string& name, SetId least);

}  // namespace ronde
