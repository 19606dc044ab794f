// The keys of exchanges between ranks: no two uses within one job share a key.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/base/mutex.h"

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

}  // namespace ronde
