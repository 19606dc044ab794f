// The agents of a job: the launcher starts some of them, and these start the others.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "bindings/cli/launch/agent_link.h"
#include "bindings/cli/launch/launcher.h"
#include "bindings/cli/launch/messages.h"

namespace ronde {

/// The host whose agent starts that of host number `host`; -1: the launcher does. No process starts
/// more than `fan_out`, and those of one level start about equally many.
int agent_parent(int host, int fan_out);

/// Starts the agents of all hosts and reads what they send. Threads: one.
class AgentTree {
 public:
  struct Hooks {
    std::function<void(Host& host, const Frame& frame)> on_frame;
    /// The agent has ended, or what it sent makes no sense.
    std::function<void(Host& host, const Status& why)> on_gone;
    std::function<void(const std::string& text)> say_if_verbose;
  };

  /// Both outlive the tree.
  AgentTree(const LaunchOptions& options, std::vector<Host>& hosts, Hooks hooks)
      : options_(options), hosts_(hosts), hooks_(std::move(hooks)) {}

  /// Starts the agents that the launcher starts. Errors: kUnavailable.
  Status start();
  /// Starts those whose parents have answered.
  void start_further();
  /// Reads what an agent has sent, and those behind it.
  void read(Host& host);

 private:
  [[nodiscard]] std::vector<std::string> command_for(const Host& host) const;
  [[nodiscard]] int parent_of(const Host& host) const;
  Status start_here(Host& host);
  void take(Host& host, const Frame& frame);
  void on_relayed(const RelayMessage& message);
  void on_end(const AgentEndMessage& message);
  void lose(Host& host, const Status& why);

  const LaunchOptions& options_;
  std::vector<Host>& hosts_;
  const Hooks hooks_;
};

}  // namespace ronde
