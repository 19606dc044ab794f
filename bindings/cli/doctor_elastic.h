// `ronde doctor --job` of elastic jobs: what their launcher knows.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bindings/cli/launch/elastic/status_socket.h"
#include "core/base/clock.h"

namespace ronde {

/// The launcher's answer.
struct LauncherAnswer {
  std::string job;             ///< The job id of the newest epoch; empty if none has begun.
  std::string text;            ///< The state of the job, for people; ends with a line end.
  std::map<int, int> workers;  ///< By pid.
};

/// The launchers of elastic jobs in this host's network namespace, of all users, by job.
std::vector<LauncherAddress> find_launchers();

/// Asks the launcher. Nothing if it belongs to another user, or does not answer by `deadline`.
std::optional<LauncherAnswer> ask_launcher(const LauncherAddress& launcher, TimePoint deadline);

/// Reads a launcher's status. Nothing if it is malformed.
std::optional<LauncherAnswer> read_status(const std::string& status);

/// The part of a job's id that all epochs of an elastic job share; other ids as they are.
std::string job_of_epoch(const std::string& job_id);
/// The epoch's number in such an id; 0 in others.
int epoch_of(const std::string& job_id);

}  // namespace ronde
