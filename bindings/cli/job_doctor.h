// `ronde doctor --job`: queries the running ranks of this user on this host.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bindings/runtime/diagnosis/diagnostics_socket.h"
#include "core/base/clock.h"
#include "core/base/status.h"
#include "timeline/dump.h"

namespace ronde {

/// One rank's answer.
struct RankAnswer {
  diagnosis::DiagnosticsAddress who;
  std::string text;          ///< The dump as received; empty if there is none.
  std::optional<Dump> dump;  ///< The dump, parsed.
  std::string silence;       ///< The reason why there is no dump.
};

/// The ranks with a socket in this host's network namespace, of all users, by job and rank.
std::vector<diagnosis::DiagnosticsAddress> find_ranks();

/// Queries all ranks at once, without those of other users. Ranks that do not answer by `deadline`
/// are described by /proc. Blocks: until `deadline` at most.
std::vector<RankAnswer> ask_ranks(const std::vector<diagnosis::DiagnosticsAddress>& ranks,
                                  TimePoint deadline);

/// The text of one job's answers.
std::string describe_job(const std::vector<RankAnswer>& answers);

/// Prints the state of the job's ranks. `job`: the beginning of its id, or a rank's pid; empty if
/// only one job runs. `folder`: also writes each rank's dump there; may be empty.
/// Errors: kUnavailable if no job runs, kInvalidArgument with a list of those that do.
Status examine_job(const std::string& job, const std::string& folder);

}  // namespace ronde
