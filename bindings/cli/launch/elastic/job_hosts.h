// The hosts of an elastic job, as a command lists them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/cli/launch/event_loop.h"
#include "bindings/cli/launch/hosts.h"
#include "core/base/clock.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"
#include "core/elastic/director.h"

namespace ronde {

/// "node1:4, node2:2"; "none".
std::string hosts_text(const std::vector<HostSlots>& hosts);

/// Knows the hosts' slots, and if they suffice to start. Threads: one.
class JobHosts {
 public:
  /// `start_slots`: the job starts once its hosts have so many.
  explicit JobHosts(int start_slots) : start_slots_(start_slots) {}

  /// A new list.
  struct Update {
    bool news = false;  ///< The director should get the list.
    std::string text;   ///< For people; may be empty.
  };
  Update set(std::vector<HostSlots> hosts);

  [[nodiscard]] const std::vector<HostSlots>& all() const noexcept { return hosts_; }
  [[nodiscard]] bool lists(const std::string& host) const { return slots(host) > 0; }
  /// 0 for a host that is not listed.
  [[nodiscard]] int slots(const std::string& host) const;
  /// " on node2" where there are several hosts.
  [[nodiscard]] std::string where(const std::string& host) const {
    return several() ? " on " + host : "";
  }
  [[nodiscard]] bool several() const noexcept { return hosts_.size() > 1; }
  [[nodiscard]] bool started() const noexcept { return started_; }

 private:
  const int start_slots_;
  std::vector<HostSlots> hosts_;
  bool started_ = false;
};

/// How the hosts are listed.
struct DiscoverySpec {
  std::vector<std::string> command;  ///< Prints the hosts; empty: the hosts never change.
  std::string name;                  ///< "--host-discovery-script ./hosts.sh", for people.
  std::function<Result<std::vector<HostSlots>>(std::string_view text)> parse;
  std::chrono::milliseconds interval{1'000};     ///< From one start to the next.
  std::chrono::milliseconds time_limit{10'000};  ///< Of one run, which is killed then.
};

/// Runs the command again and again, in the background. A run that fails is printed once, until
/// one succeeds; it changes no hosts. Threads: one.
class HostDiscovery {
 public:
  struct Handlers {
    std::function<void(std::vector<HostSlots> hosts)> on_hosts;  ///< After each run that succeeds.
    std::function<void(const std::string& text)> say;
  };
  HostDiscovery(DiscoverySpec spec, Handlers handlers);
  ~HostDiscovery() { stop(); }
  HostDiscovery(const HostDiscovery&) = delete;
  HostDiscovery& operator=(const HostDiscovery&) = delete;

  void watch(PollSet& set);
  /// Call it after SIGCHLD.
  void reap();
  [[nodiscard]] TimePoint deadline() const noexcept;
  void on_time(TimePoint time);
  /// Kills the run that there is, and starts none any more.
  void stop() noexcept;

 private:
  struct Stream {
    FileDescriptor fd;
    std::string text;
  };
  void start(TimePoint time);
  void end_run(int wait_status);
  void read(Stream& stream);
  void complain(const std::string& why);

  const DiscoverySpec spec_;
  const Handlers handlers_;
  pid_t pid_ = -1;
  Stream output_;
  Stream error_;
  TimePoint next_start_ = kForever;
  TimePoint kill_time_ = kForever;
  bool too_long_ = false;  ///< The run was killed: it took too long, or printed too much.
  bool failing_ = false;
  bool listed_ = false;  ///< Some run has succeeded.
};

}  // namespace ronde
