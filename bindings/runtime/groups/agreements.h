// Agreements of ranks before they act: keys of exchanges, values, outcomes, ids, settings.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/settings/config.h"
#include "core/base/status.h"
#include "core/engine/engine.h"
#include "core/ports/backend.h"
#include "ops/selection/selector.h"

namespace ronde {

/// The exchange of settings when the job starts.
inline constexpr std::uint64_t kSettingsKey = std::uint64_t{1} << 60;
inline constexpr std::uint64_t kAgreementKeys = std::uint64_t{1} << 62;
inline constexpr std::uint64_t kGroupKeys = std::uint64_t{1} << 63;
inline constexpr std::uint64_t kDeviceKeys = 0x6465'7669'6365;  // unlike the id of any set

/// Exchange number `round` between all ranks of the job.
constexpr std::uint64_t job_key(std::uint64_t round) noexcept { return kAgreementKeys | round; }

/// The exchange that comes before the group of `group_key` is opened.
constexpr std::uint64_t agreement_key(std::uint64_t group_key) noexcept {
  return group_key | kAgreementKeys;
}

/// The exchange that opens devices for the group of `group_key`.
constexpr std::uint64_t device_key(std::uint64_t group_key) noexcept {
  return group_key ^ kDeviceKeys;
}

/// Counts the groups of the same ranks, so that all members use the same key. Threads: any.
class GroupKeys {
 public:
  /// The key of the next group of `ranks`. All members call it equally often.
  std::uint64_t next(const std::vector<int>& ranks) RONDE_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::map<std::vector<int>, int> counts_ RONDE_GUARDED_BY(mutex_);
};

/// Makes an exchange of `ranks` under a key that they use for nothing else.
using MakeExchange = std::function<std::unique_ptr<Exchange>(
    std::uint64_t key, const std::vector<int>& ranks, const WaitOptions& options)>;

/// Makes the exchange of some ranks of a group, under a key of their own.
using ExchangeInside =
    std::function<std::unique_ptr<Exchange>(std::uint64_t key, const std::vector<int>& ranks)>;

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

/// Tells all of `ranks`, the members of `exchange`, the first error of any: "rank 1: it is alone";
/// empty where none has one.
Result<std::string> first_objection(Exchange& exchange, const std::vector<int>& ranks,
                                    const Status& mine);

/// Gives all of `ranks`, the members of `exchange`, the first error of any; a rank with an error
/// gets its own. Others' errors are kUnavailable naming the rank.
Status first_error(Exchange& exchange, const std::vector<int>& ranks, const Status& mine);

/// Agrees with `ranks`, the members of `exchange`, on the largest `least` of any.
/// Errors: kMismatch where their names for the set differ.
Result<SetId> agree_on_id(Exchange& exchange, const std::vector<int>& ranks,
                          const std::string& name, SetId least);

/// The things that a rank keeps from the job before this one.
struct Carried {
  std::string tuning;         ///< The text of the tuning file; empty: none.
  std::uint64_t steps = 0;    ///< The most steps of any residual.
  std::size_t residuals = 0;  ///< Tensors that have one.
  bool was_member = false;    ///< There was such a job.

  static void fields(auto& wire, auto& self) {
    wire(self.tuning, self.steps, self.residuals, self.was_member);
  }
};

/// Facts that a rank brings to an agreement on settings, besides the settings.
struct JoiningRank {
  int rank = 0;
  Carried carried;
  Status backend;  ///< Why it cannot use the backend that it asks for.
};

/// The result of an agreement on settings.
struct AgreedSettings {
  std::vector<SelectionRow> tuned;  ///< The rows of `carried.tuning`.
  Carried carried;                  ///< Rank 0's tuning; the most steps and residuals of any rank.
  int old_members = 0;              ///< Ranks that were in the job before.
};

/// Compares this rank's settings with those of all ranks of `exchange`. Takes over the rows of rank
/// 0's tuning file, or those that rank 0 keeps from the job before; no other rank's file is read.
/// Collective.
/// Errors: kMismatch naming the setting, two ranks and both values; kInvalidArgument where rank 0
/// cannot read its tuning file; kUnavailable where a rank cannot use its backend. The same on all
/// ranks.
Result<AgreedSettings> agree_on_settings(const Config& config, JoiningRank mine,
                                         Exchange& exchange);

}  // namespace ronde
