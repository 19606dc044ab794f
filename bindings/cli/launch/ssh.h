// Other hosts by ssh: commands, and files that ranks have written there.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/cli/launch/hosts.h"
#include "core/base/status.h"

namespace ronde {

/// Options of ssh, by which other hosts are reached.
struct SshOptions {
  int port = 0;                      ///< 0: ssh's own choice.
  std::string identity_file;         ///< Empty: ssh's own choice.
  std::vector<std::string> options;  ///< "Key=Value", given to ssh as -o.
  std::string remote_program;        ///< Path of the `ronde` program there.
  std::string shell;  ///< Program that takes a host and a command, in place of ssh; empty: ssh.

  /// The program that starts agents.
  [[nodiscard]] std::string name() const { return shell.empty() ? "ssh" : shell; }
};

/// A word as a login shell reads it back.
std::string shell_quoted(const std::string& word);

/// The command that has the login shell of `host` run `text`, as argv.
std::vector<std::string> remote_command(const SshOptions& ssh, const std::string& host,
                                        const std::string& text);

/// The command that starts an agent on `host` by ssh, as argv.
std::vector<std::string> ssh_command(const SshOptions& ssh, const std::string& host);

/// How the agent of `host`, which an error calls `agent`, has ended, with the remedy where the
/// shell or ssh itself has failed.
std::string describe_agent_end(const SshOptions& ssh, const std::string& host,
                               std::string_view agent, int wait_status);

/// Copies `paths`, which lie in one directory, from `host` to the same paths here, by tar over ssh.
/// Files that are not there are left out. Blocks. Errors: kUnavailable where that cannot be run.
Status fetch_files(const SshOptions& ssh, const std::string& host,
                   const std::vector<std::string>& paths);

/// Paths by host.
using FilesOfHosts = std::map<std::string, std::vector<std::string>>;

/// The files of `paths`, one for each rank, that are not here and that a remote host may have.
FilesOfHosts files_elsewhere(const std::vector<HostRanks>& hosts,
                             const std::vector<std::string>& paths);

}  // namespace ronde
