// The launcher's end of one agent: starts it here or by ssh, and exchanges frames with it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "bindings/cli/launch/frame.h"
#include "bindings/cli/launch/hosts.h"
#include "bindings/cli/launch/out_queue.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde {

/// How other hosts are reached.
struct SshOptions {
  int port = 0;                      ///< 0: ssh's own choice.
  std::string identity_file;         ///< Empty: ssh's own choice.
  std::vector<std::string> options;  ///< "Key=Value", given to ssh as -o.
  std::string remote_program;        ///< Path of the `ronde` program there.
};

/// A word as a login shell reads it back.
std::string shell_quoted(const std::string& word);

/// The command that has the login shell of `host` run `text`, as argv.
std::vector<std::string> remote_command(const SshOptions& ssh, const std::string& host,
                                        const std::string& text);

/// The command that starts an agent on `host` by ssh, as argv.
std::vector<std::string> ssh_command(const SshOptions& ssh, const std::string& host);

/// One agent. Threads: one.
class AgentLink {
 public:
  /// Starts the agent. Errors: kUnavailable where the program cannot be run.
  Status start(const std::vector<std::string>& command);

  /// Reads what has come; calls `on_frame` for each whole frame. Errors: kUnavailable at the end
  /// of the agent's output, kVersionMismatch, kInvalidArgument where the bytes make no sense.
  Status read(const std::function<void(const Frame&)>& on_frame);

  void send(std::string_view frame) { to_.push(frame); }
  /// Writes what send() queued; when poll() says that input() is writable.
  void write() { (void)to_.write_some(in_.get()); }
  [[nodiscard]] bool wants_write() const noexcept { return in_.valid() && !to_.empty(); }

  /// Ends the agent and all its ranks, as the death of the launcher would.
  void close_input() noexcept { in_.reset(); }

  [[nodiscard]] int input() const noexcept { return in_.get(); }
  [[nodiscard]] int output() const noexcept { return out_.get(); }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] bool greeted() const noexcept { return greeted_; }
  [[nodiscard]] bool ended() const noexcept { return !out_.valid(); }

 private:
  Status take_greeting();

  FileDescriptor in_;
  FileDescriptor out_;
  OutQueue to_;
  AgentFrameReader frames_;
  std::string before_greeting_;
  pid_t pid_ = -1;
  bool greeted_ = false;
};

}  // namespace ronde
