#include "bindings/cli/launch/agent_link.h"

#include <fmt/format.h>
#include <signal.h>

#include "bindings/cli/launch/child.h"
#include "bindings/cli/launch/messages.h"

namespace ronde {

std::string shell_quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::vector<std::string> remote_command(const SshOptions& ssh, const std::string& host,
                                        const std::string& text) {
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

Status AgentLink::start(const std::vector<std::string>& command) {
  RONDE_ASSIGN_OR_RETURN(Pipe in, make_pipe());
  RONDE_ASSIGN_OR_RETURN(Pipe out, make_pipe());
  const StartedChild child = start_child({.command = command,
                                          .environment = {},
                                          .secret = {},
                                          .cpus = {},
                                          .death_signal = SIGTERM,
                                          .input = in.read.get(),
                                          .output = out.write.get()});
  if (child.pid < 0) return {Code::kUnavailable, child.failure.text};
  pid_ = child.pid;
  set_nonblocking(in.write.get());
  set_nonblocking(out.read.get());
  in_ = std::move(in.write);
  out_ = std::move(out.read);
  return {};
}

/// What a remote shell's start-up files print comes first and is not ours.
Status AgentLink::take_greeting() {
  const std::size_t at = before_greeting_.find(kAgentGreeting);
  const std::size_t end = at == std::string::npos ? at : before_greeting_.find('\n', at);
  if (end == std::string::npos) return {};
  const std::size_t version = at + kAgentGreeting.size();
  const std::string theirs = before_greeting_.substr(version, end - version);
  if (theirs != RONDE_VERSION) {
    return {Code::kVersionMismatch,
            fmt::format("has ronde {}, but this is {}; install the same", theirs, RONDE_VERSION)};
  }
  greeted_ = true;
  frames_.feed(std::string_view(before_greeting_).substr(end + 1));
  before_greeting_.clear();
  return {};
}

Status AgentLink::read(const std::function<void(const Frame&)>& on_frame) {
  std::string bytes;
  const ReadState state = read_some(out_.get(), bytes);
  if (state == ReadState::kEnd) {
    out_.reset();
    return {Code::kUnavailable, "the connection has ended"};
  }
  if (greeted_) {
    frames_.feed(bytes);
  } else {
    before_greeting_ += bytes;
    RONDE_RETURN_IF_ERROR(take_greeting());
  }
  while (greeted_) {
    RONDE_ASSIGN_OR_RETURN(const std::optional<Frame> frame, frames_.next());
    if (!frame) break;
    on_frame(*frame);
  }
  return {};
}

}  // namespace ronde
