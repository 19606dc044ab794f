#include "bindings/cli/launch/ssh.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <utility>

#include "bindings/cli/launch/process.h"
#include "core/base/os/folders.h"

namespace ronde {
namespace {

/// The command for the other host's shell. Missing files are no failure.
std::string packing_command(const std::vector<std::string>& paths) {
  const std::filesystem::path first(paths.front());
  std::string command = fmt::format("tar -C {} --ignore-failed-read -czf - --",
                                    shell_quoted(first.parent_path().string()));
  for (const std::string& path : paths) {
    command += " " + shell_quoted(std::filesystem::path(path).filename().string());
  }
  return command + " 2>/dev/null";
}

Result<pid_t> start(std::vector<std::string> command, int input, int output) {
  const StartedChild child = start_child(
      {.command = std::move(command), .death_signal = SIGTERM, .input = input, .output = output});
  if (child.pid < 0) return Status(Code::kUnavailable, child.failure.text);
  return child.pid;
}

}  // namespace

std::string shell_quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::vector<std::string> remote_command(const SshOptions& ssh, const std::string& host,
                                        const std::string& text) {
  if (!ssh.shell.empty()) return {ssh.shell, host, text};
  std::vector<std::string> command = {"ssh",           "-T", "-o",
                                      "BatchMode=yes", "-o", "ServerAliveInterval=5"};
  for (const std::string& option : ssh.options) {
    command.insert(command.end(), {"-o", option});
  }
  if (ssh.port != 0) command.insert(command.end(), {"-p", fmt::to_string(ssh.port)});
  if (!ssh.identity_file.empty()) command.insert(command.end(), {"-i", ssh.identity_file});
  command.insert(command.end(), {"--", host, text});
  return command;
}

std::vector<std::string> ssh_command(const SshOptions& ssh, const std::string& host) {
  return remote_command(ssh, host, shell_quoted(ssh.remote_program) + " run-agent");
}

std::string describe_agent_end(const SshOptions& ssh, const std::string& host,
                               std::string_view agent, int wait_status) {
  constexpr int kNoSuchProgram = 127;  // of the shell
  constexpr int kNoConnection = 255;   // of ssh
  if (exit_status_of(wait_status) == kNoSuchProgram) {
    return fmt::format(
        "ronde is not installed on {} as {}; install the same version there, or name "
        "its path by --remote-ronde",
        host, ssh.remote_program);
  }
  const std::string text = fmt::format("{} {}", agent, describe_wait_status(wait_status));
  if (exit_status_of(wait_status) != kNoConnection || !ssh.shell.empty()) return text;
  return fmt::format("{}; \"ssh {} true\" must work without a password", text, host);
}

Status fetch_files(const SshOptions& ssh, const std::string& host,
                   const std::vector<std::string>& paths) {
  const std::string directory = std::filesystem::path(paths.front()).parent_path().string();
  RONDE_ASSIGN_OR_RETURN(Pipe between, make_pipe());
  RONDE_ASSIGN_OR_RETURN(
      const pid_t sender,
      start(remote_command(ssh, host, packing_command(paths)), -1, between.write.get()));
  const auto receiver = start({"tar", "-C", directory, "-xzf", "-"}, between.read.get(), -1);
  between.read.reset();
  between.write.reset();
  int wait_status = 0;
  ::waitpid(sender, nullptr, 0);
  RONDE_RETURN_IF_ERROR(receiver.status());
  ::waitpid(*receiver, &wait_status, 0);
  if (wait_status == 0) return {};
  return {Code::kUnavailable,
          fmt::format("cannot fetch files of {}: tar {}", host, describe_wait_status(wait_status))};
}

FilesOfHosts files_elsewhere(const std::vector<HostRanks>& hosts,
                             const std::vector<std::string>& paths) {
  FilesOfHosts elsewhere;
  for (const HostRanks& host : hosts) {
    for (int rank = host.first_rank; rank < host.first_rank + host.ranks; ++rank) {
      const std::string& path = paths[static_cast<std::size_t>(rank)];
      if (!host.name.empty() && !is_there(path)) elsewhere[host.name].push_back(path);
    }
  }
  return elsewhere;
}

}  // namespace ronde
