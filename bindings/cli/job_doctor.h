// `ronde doctor --job`: asks the running ranks of this user on this host what they are doing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bindings/runtime/diagnosis/door.h"
#include "core/base/clock.h"
#include "core/base/status.h"
#include "timeline/dump.h"

namespace ronde {

/// What one rank answered.
struct RankAnswer {
  diagnosis::DoorName who;
  std::string text;          ///< The dump as it came; empty where none did.
  std::optional<Dump> dump;  ///< The same, read.
  std::string silence;       ///< Why there is none.
};

/// The doors of this host's network namespace, of all users, by job and rank.
std::vector<diagnosis::DoorName> find_doors();

/// Asks all of them at once. Those of other users are left out; who does not answer by `deadline`
/// is told as the kernel sees it. Blocks: until `deadline` at most.
std::vector<RankAnswer> ask_ranks(const std::vector<diagnosis::DoorName>& doors,
                                  TimePoint deadline);

/// The answers of one job, for people.
std::string describe_job(const std::vector<RankAnswer>& answers);

/// Prints what the job's ranks are doing. `job`: the beginning of its id, or a rank's pid; empty
/// where only one job runs. `folder`: also writes each rank's dump there; may be empty.
/// Errors: kUnavailable where no job runs, kInvalidArgument listing those that do.
Status examine_job(const std::string& job, const std::string& folder);

}  // namespace ronde
