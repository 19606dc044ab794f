// Tests if a host reaches the others of an elastic job, while the job runs without it: the agents'
// part and the launcher's.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "bindings/cli/launch/event_loop.h"
#include "bindings/cli/launch/messages.h"
#include "core/base/clock.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"
#include "core/elastic/commands.h"

namespace ronde {

/// Listens for the other hosts, and connects to them. Nothing is sent. Threads: one.
class ReachTest {
 public:
  static constexpr std::chrono::seconds kLimit{5};  ///< For a connection.

  /// `send`: takes the answer as a frame.
  explicit ReachTest(std::function<void(const std::string& frame)> send) : send_(std::move(send)) {}

  /// From now on others can connect, until two limits have passed. Returns the port. Errors:
  /// kUnavailable.
  Result<int> listen(const std::string& address);
  /// Tries all of them at once. Answers when the last one is known. Ends an earlier try.
  void connect(const ReachMessage& question);

  void watch(PollSet& set);
  [[nodiscard]] TimePoint deadline() const noexcept;
  /// Call it at deadline().
  void on_time(TimePoint time);

 private:
  struct Attempt {
    std::string place;
    FileDescriptor socket;
  };
  void begin(const std::string& place);
  void end(Attempt& attempt);
  void miss(const std::string& place, const std::string& why);
  void answer_if_done();

  const std::function<void(const std::string& frame)> send_;
  FileDescriptor listener_;
  TimePoint listens_until_ = kForever;
  std::list<Attempt> attempts_;
  TimePoint answer_at_ = kForever;  // the latest; kForever: nothing was asked
  ReachedMessage answer_;
};

/// Has the agents of the hosts listen, then connect to each other. Threads: one.
class HostTrials {
 public:
  struct Args {
    std::function<void(const std::string& host, const std::string& frame)> send;
    /// The end of a trial. `missed`: what could not be reached; empty: the host may take part.
    std::function<void(const std::string& host, const std::string& missed)> on_end;
    std::string interface;                      ///< As LaunchOptions::network_interface.
    std::chrono::milliseconds start_timeout{};  ///< For an agent that starts.
  };
  explicit HostTrials(Args args) : args_(std::move(args)) {}

  void begin(const elastic::TryHost& command);
  void on_listening(const std::string& host, const ListeningMessage& answer);
  void on_reached(const std::string& host, const ReachedMessage& answer);
  /// Its trial ends without a result; those of others go without it.
  void on_host_lost(const std::string& host);

  [[nodiscard]] TimePoint deadline() const noexcept;
  void on_time(TimePoint time);

 private:
  struct Trial {
    int number = 0;
    std::string host;
    std::set<std::string> awaited;              ///< Hosts that have not answered yet.
    std::map<std::string, std::string> places;  ///< By host: where it listens.
    bool connects = false;                      ///< All listen.
    std::vector<std::string> missed;
    TimePoint deadline = kForever;
  };
  Trial* find(int number);
  void go_on(Trial& trial);
  void connect(Trial& trial);
  void ask(Trial& trial, const std::string& host, std::vector<std::string> places);
  void end(const Trial& trial);

  const Args args_;
  std::list<Trial> trials_;
  int last_number_ = 0;
};

}  // namespace ronde
