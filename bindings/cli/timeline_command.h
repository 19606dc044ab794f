// `ronde timeline`: works on the traces that a job has written.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace ronde {

/// Adds the subcommand and its own: merge, report, diff, view.
void add_timeline_command(CLI::App& app);

/// Removes the traces of an earlier job with this --timeline.
void forget_traces(const std::string& timeline, int ranks);

/// Merges the traces that a job's ranks wrote for --timeline. Prints the result, and ranks without
/// a trace, on standard error.
void merge_job_traces(const std::string& timeline, int ranks);

}  // namespace ronde
