// Copies files that ranks on other hosts have written to this one, after the job.
#pragma once

#include <string>
#include <vector>

#include "bindings/cli/launch/agent_link.h"

namespace ronde {

/// Copies `paths`, which lie in one directory, from `host` to the same paths here, by tar over ssh.
/// Files that are not there are left out. Blocks. Errors: kUnavailable where that cannot be run.
Status fetch_files(const SshOptions& ssh, const std::string& host,
                   const std::vector<std::string>& paths);

/// The files of `paths`, one for each rank, that are not here and that a remote host may have.
struct RemoteFiles {
  std::string host;
  std::vector<std::string> paths;
};
std::vector<RemoteFiles> files_elsewhere(const std::vector<HostRanks>& hosts,
                                         const std::vector<std::string>& paths);

}  // namespace ronde
