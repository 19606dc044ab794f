// The agents of an elastic job.
#pragma once

#include <functional>
#include <list>
#include <string>
#include <vector>

#include "bindings/cli/launch/agent_link.h"
#include "bindings/cli/launch/event_loop.h"
#include "bindings/cli/launch/launcher.h"
#include "bindings/cli/launch/messages.h"
#include "core/base/clock.h"

namespace ronde {

/// Keeps an agent on each host that has workers. Handlers are called in the methods that say so.
/// Threads: one.
class AgentPool {
 public:
  struct Handlers {
    std::function<void(const std::string& host, const AgentMessage& message)> on_message;
    /// The host's agent is gone, with all its workers.
    std::function<void(const std::string& host, const std::string& why)> on_lost;
  };
  AgentPool(const LaunchOptions& options, Handlers handlers)
      : options_(options), handlers_(std::move(handlers)) {}

  /// True if the host has an agent, which may still be starting.
  [[nodiscard]] bool has(const std::string& host) { return find(host) != nullptr; }
  /// Starts the host's agent. Calls on_lost() where that fails.
  void start(const std::string& host);
  /// Sends a frame to the host's agent; nothing where there is none.
  void send(const std::string& host, const std::string& frame);
  void send_to_all(const std::string& frame);
  /// Sends a signal to all workers.
  void signal_all(int signal) { send_to_all(encode(SignalMessage{signal})); }
  void send_to_others(const std::string& host, const std::string& frame);

  /// Reads where `read` says so, and writes. Calls both handlers.
  void watch(PollSet& set, bool read);
  /// Forgets agents that have ended; call it while no turn of the event loop refers to them.
  void forget_ended();
  /// Sends signs of life. Gives up agents that send none. Calls on_lost().
  void on_time(TimePoint time);
  [[nodiscard]] TimePoint deadline() const noexcept;

  /// Ends the host's agent, which has no workers any more.
  void retire(const std::string& host);
  /// Ends all agents, with their workers.
  void retire_all();
  /// Kills all agents.
  void kill_all();
  /// No agent is left.
  [[nodiscard]] bool empty() const noexcept { return agents_.empty(); }

  /// The hosts with an agent.
  [[nodiscard]] std::vector<std::string> hosts() const;

 private:
  struct Agent {
    std::string host;
    AgentLink link;
    TimePoint start_deadline = kForever;
    Heartbeat heartbeat;
    bool retired = false;
  };

  Agent* find(const std::string& host);
  void read(Agent& agent);
  void give_up_silent(TimePoint time);
  void lose(Agent& agent, const std::string& why);
  [[nodiscard]] std::string end_of(const Agent& agent, const Status& status) const;

  const LaunchOptions& options_;
  const Handlers handlers_;
  std::list<Agent> agents_;
};

}  // namespace ronde
