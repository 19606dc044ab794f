// The launcher's end of the agents: a link for each host of the job. The launcher starts some
// agents, and these start the others.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/cli/launch/event_loop.h"
#include "bindings/cli/launch/hosts.h"
#include "bindings/cli/launch/launcher.h"
#include "bindings/cli/launch/messages.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde {

/// One agent: a child of this process, or one behind another agent. Threads: one.
class AgentLink {
 public:
  using OnMessage = std::function<void(const AgentMessage&)>;

  /// Starts the agent. Errors: kUnavailable where the program cannot be run.
  Status start(const std::vector<std::string>& command);
  /// Has the agent of `parent`, which outlives this, start it as number `number`.
  void start_behind(AgentLink& parent, int number, std::vector<std::string> command);

  /// Reads what a child has sent; calls `take` for each whole message. Errors: kUnavailable at
  /// the end of its output; those of feed().
  Status read(const OnMessage& take);
  /// Takes what the agent has sent. Errors: kVersionMismatch, kInvalidArgument where the bytes make
  /// no sense.
  Status feed(std::string_view bytes, const OnMessage& take);
  /// An agent behind another one has ended, with this status where it is known.
  void end(std::optional<int> wait_status);

  /// Queues a frame. It goes out once the agent has said its version.
  void send(std::string_view frame);
  /// Writes what send() queued; when poll() says that input() is writable.
  void write() { (void)to_.write_some(in_.get()); }
  [[nodiscard]] bool wants_write() const noexcept {
    return greeted_ && in_.valid() && !to_.empty();
  }

  /// Ends the agent and all its ranks, as the death of the launcher would.
  void close_input();

  /// -1 for an agent behind another one, as for one that has ended.
  [[nodiscard]] int input() const noexcept { return in_.get(); }
  [[nodiscard]] int output() const noexcept { return out_.get(); }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] bool started() const noexcept { return pid_ > 0 || parent_ != nullptr; }
  [[nodiscard]] bool is_behind(const AgentLink& other) const noexcept { return parent_ == &other; }
  [[nodiscard]] bool greeted() const noexcept { return greeted_; }
  [[nodiscard]] bool ended() const noexcept {
    return parent_ == nullptr ? !out_.valid() : ended_behind_;
  }
  /// How the agent has ended, once; waits for a child. Nothing where it is not known.
  std::optional<int> take_wait_status();

 private:
  Status take_greeting();

  FileDescriptor in_;
  FileDescriptor out_;
  OutQueue to_;
  MessageReader messages_;
  std::string before_greeting_;
  pid_t pid_ = -1;
  bool greeted_ = false;
  // Behind another agent.
  AgentLink* parent_ = nullptr;
  int number_ = 0;
  std::string unsent_;  // before the greeting
  bool ended_behind_ = false;
  std::optional<int> wait_status_;
};

/// One host, its agent, and those of its ranks that have not ended.
struct Host {
  const HostRanks* ranks = nullptr;
  AgentLink link;
  std::set<int> unfinished;

  [[nodiscard]] std::string name() const { return ranks->name.empty() ? "this host" : ranks->name; }
};

/// One for each host of `all`, without an agent yet.
std::vector<Host> hosts_of(const std::vector<HostRanks>& all);

/// Sends a frame to all agents, or to all but one.
void send_to_all(std::vector<Host>& hosts, const std::string& frame, const Host* but = nullptr);

/// Waits for the agents, which have ended or are told to.
void reap_agents(const std::vector<Host>& hosts);

/// "rank 1 has ended, ranks 0, 2 and 3 still run"; empty where all or none have ended.
std::string still_running(const std::vector<Host>& hosts);

/// "rank 0", "ranks 0, 2 and 3", "ranks 0, 1, 2, 3 and 60 more".
std::string name_ranks(const std::vector<int>& ranks);

/// The host on which the rank runs; null if it has ended.
Host* host_of(std::vector<Host>& hosts, int rank);

/// The host whose agent starts that of host number `host`; -1: the launcher does. No process starts
/// more than `fan_out`, and those of one level start about equally many.
int agent_parent(int host, int fan_out);

/// Starts the agents of all hosts and reads what they send. Threads: one.
class AgentTree {
 public:
  struct Hooks {
    std::function<void(Host& host, const AgentMessage& message)> on_message;
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
  void take(Host& host, const AgentMessage& message);
  void on_relayed(const RelayMessage& message);
  void on_end(const AgentEndMessage& message);
  void lose(Host& host, const Status& why);

  const LaunchOptions& options_;
  std::vector<Host>& hosts_;
  const Hooks hooks_;
};

}  // namespace ronde
