// Runs one elastic job: workers come and go while it runs.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "bindings/cli/launch/elastic/job_history.h"
#include "bindings/cli/launch/elastic/job_hosts.h"
#include "bindings/cli/launch/hosts.h"
#include "bindings/cli/launch/launcher.h"
#include "core/elastic/director.h"

namespace ronde {

/// One elastic job.
struct ElasticOptions {
  LaunchOptions launch;  ///< Its hosts are not used.
  elastic::DirectorOptions director;
  std::vector<HostSlots> hosts;  ///< Where no command lists them.
  DiscoverySpec discovery;
  /// A worker whose process is stopped for longer is killed; 0: never.
  std::chrono::seconds freeze_timeout{60};
  int start_slots = 1;   ///< The job starts once its hosts have so many slots.
  std::string timeline;  ///< Path of the user's, where traces are written; empty: none are.
};

/// The end of an elastic job.
struct ElasticResult {
  int exit_status = 0;
  std::vector<EpochPart> parts;  ///< Workers' parts in epochs.
};

/// Runs the job to its end. Exit status: 0 where it finished, else that of the first failure that
/// it could not survive, or 128 + signal where the launcher was asked to end.
/// Writes to standard output and error. Signals, threads: as launch().
ElasticResult launch_elastic(const ElasticOptions& options);

}  // namespace ronde
