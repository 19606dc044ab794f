// `ronde timeline`: works on the traces that a job has written.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace ronde {

/// Adds the subcommand and its own: merge, report, diff, view.
void add_timeline_command(CLI::App& app);

/// Removes what an earlier job with this --timeline left, so that it is not taken for this one's.
void forget_traces(const std::string& timeline, int ranks);

/// Merges what the ranks of a job have written for --timeline, and says so on standard error, as
/// it says which ranks wrote nothing here.
void merge_job_traces(const std::string& timeline, int ranks);

}  // namespace ronde
