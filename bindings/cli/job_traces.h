// The traces of a job that `ronde run` has started: forgets old ones, fetches and merges new ones.
#pragma once

#include <string>
#include <vector>

#include "bindings/cli/launch/elastic/job_history.h"
#include "bindings/cli/launch/launcher.h"
#include "bindings/cli/launch/ssh.h"
#include "timeline/merging/merge.h"

namespace ronde {

/// Prints what users should know of a merge to standard error.
void warn_of_merge(const MergeReport& report);

/// Removes traces of ranks from before, so that a job which fails early leaves no older ones.
void forget_traces(const std::string& timeline, int ranks);
/// Copies traces of ranks that are not here from their hosts. Blocks.
void fetch_traces(const std::string& timeline, const LaunchOptions& options);
/// Merges the traces of the ranks into `timeline`, as far as they are on this host. False where
/// that fails, after a line that says why.
bool merge_job_traces(const std::string& timeline, int ranks);

/// Removes traces of an elastic job's workers, of all its epochs, from before.
void forget_elastic_traces(const std::string& timeline);
/// Copies traces of these parts that are not here from their hosts. Blocks.
void fetch_elastic_traces(const std::string& timeline, const std::vector<EpochPart>& parts,
                          const SshOptions& ssh);
/// Merges the traces of the workers and of the launcher into `timeline`. False where that fails,
/// after a line that says why.
bool merge_elastic_traces(const std::string& timeline);

}  // namespace ronde
