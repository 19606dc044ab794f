// The agents that an agent starts on further hosts, so that no process starts too many.
#pragma once

#include <sys/types.h>

#include <functional>
#include <list>
#include <string>

#include "bindings/cli/launch/messages.h"
#include "bindings/cli/launch/output.h"
#include "bindings/cli/launch/poll_set.h"
#include "core/base/os/file_descriptor.h"

namespace ronde {

/// Passes bytes between the launcher and those agents, unread. Threads: one.
class Relay {
 public:
  /// `send`: takes frames for the launcher.
  explicit Relay(std::function<void(const std::string& frame)> send) : send_(std::move(send)) {}

  /// Starts an agent. Its end is reported, also if it could not be started.
  void start(const StartAgentMessage& message);
  /// Passes the launcher's bytes on to an agent; none end its input, and so the agent.
  void pass_on(const RelayMessage& message);
  /// Watches the agents, and their output where it is wanted.
  void watch(PollSet& set, bool output);
  /// Notes that a child of this process has ended, if it was one of the agents.
  void on_child_end(pid_t pid, int wait_status);

  [[nodiscard]] bool empty() const noexcept { return agents_.empty(); }

 private:
  struct Agent {
    int number = 0;
    pid_t pid = -1;
    FileDescriptor in;
    FileDescriptor out;
    OutQueue to;
    bool input_ends = false;
  };

  void write(Agent& agent);
  void read(Agent& agent);

  const std::function<void(const std::string& frame)> send_;
  std::list<Agent> agents_;
};

}  // namespace ronde
