// The examinations of `ronde doctor`: the machine, codecs and links, a running job.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/cli/launch/elastic/job_history.h"
#include "bindings/runtime/diagnosis/rank_query.h"
#include "core/base/clock.h"
#include "core/base/settings/config.h"
#include "core/base/status.h"

namespace ronde {

/// Bytes with a unit: "64 KiB", "1.5 GiB".
std::string bytes_text(std::uint64_t bytes);

/// Prints the speed of encoding and decoding on one core, and the choices for links of common
/// speeds. In a job (`ronde run ... -- ronde doctor --compression`) all ranks measure their link
/// too, by allreduces of several sizes, and rank 0 prints the choices.
/// Errors: the job's.
Status examine_compression(const Config& config);

using diagnosis::RankAnswer;

/// The function of a frame of a dump, without arguments, templates, offset and library.
std::string function_name(std::string_view frame);

/// The text of one job's answers.
std::string describe_job(const std::vector<RankAnswer>& answers);

/// Prints the state of the job's ranks; of an elastic job first its launcher's view, then the ranks
/// of the newest epoch. `job`: the beginning of its id, a rank's pid or the pid of an elastic job's
/// launcher; empty if only one job runs. `folder`: also writes each rank's dump there; may be
/// empty. `json`: prints JSON. Errors: kUnavailable if no job runs, kInvalidArgument with a list of
/// those that do.
Status examine_job(const std::string& job, const std::string& folder, bool json = false);

/// Errors: kUnavailable naming the first rank that is silent or whose job is broken.
Status check_answers(const std::vector<RankAnswer>& answers);

/// Asks this host's ranks of `job`, or of all jobs if it is empty, for a probe. Prints nothing, and
/// reads no stacks. `must_run`: no rank is an error, too. Errors: those of check_answers().
Status probe_job(const std::string& job, bool must_run);

/// The answer of an elastic job's launcher.
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
