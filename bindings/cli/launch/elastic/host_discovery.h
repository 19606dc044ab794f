// The hosts of an elastic job, as a command lists them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/cli/launch/hosts.h"
#include "bindings/cli/launch/poll_set.h"
#include "core/base/clock.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde {

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
  void start(TimePoint time);
  void end_run(int wait_status);
  void read(FileDescriptor& from, std::string& into);
  void complain(const std::string& why);

  const DiscoverySpec spec_;
  const Handlers handlers_;
  pid_t pid_ = -1;
  FileDescriptor output_;
  FileDescriptor error_;
  std::string output_text_;
  std::string error_text_;
  TimePoint next_start_ = kForever;
  TimePoint kill_time_ = kForever;
  bool too_long_ = false;  ///< The run was killed: it took too long, or printed too much.
  bool failing_ = false;
  bool listed_ = false;  ///< Some run has succeeded.
};

}  // namespace ronde
