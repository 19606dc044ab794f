// The thread that learns within a fraction of a millisecond that a rank of this host died, and that
// notices ranks which do not run.
//
// Each rank's thread holds a robust futex in the host segment. The `owner` word holds its thread
// id, and the thread's robust list (set_robust_list(2)) names the word. When the process ends in
// any way, the kernel sets FUTEX_OWNER_DIED in the word and wakes one waiter. It does so before it
// frees memory. The ranks of a host watch in a ring: each waits on the word of the next living
// rank. The rank that finds a death notes it in the segment, wakes all other watch threads and
// sleepers, and watches the next rank. A rank that leaves on purpose notes that before it releases
// its word.
//
// A frozen process does not end. So each thread also counts up a beat, and looks at the beats of
// all ranks of the host. PeerLiveness judges them: sooner where the kernel reports a rank as
// stopped.
//
// To wake a watch thread, FUTEX_WAITERS is cleared in the word it waits on, then the word is woken.
// A thread about to sleep finds the word changed, so no wake-up is lost.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "backends/net/control/host_segment.h"
#include "backends/net/control/losses.h"
#include "backends/net/control/peer_liveness.h"
#include "core/base/status.h"

namespace ronde::net {

/// The events of the watch thread.
struct WatchHooks {
  /// Once for each loss that this host knows of, perhaps of this rank: as LossReader::read.
  std::function<void(const LostRank&)> on_lost;
  /// A rank of this host is frozen, or runs again. May be empty.
  std::function<void(int rank, const PeerLiveness& peer)> on_change;
};

/// The watch of one rank: a thread from start() to stop().
class HostWatch {
 public:
  /// For the rank at `position`. `segment` outlives this.
  HostWatch(const HostSegment& segment, int position);
  ~HostWatch();
  HostWatch(const HostWatch&) = delete;
  HostWatch& operator=(const HostWatch&) = delete;

  /// Takes this rank's word: from now on its death shows. Blocks until the thread has it.
  /// Errors: kUnsupported where the kernel has no robust futexes.
  Status start();

  /// Begins to watch the others; only once all of them have started.
  void begin_watching(const LossLimits& limits, WatchHooks hooks);

  /// Notifies the ranks of this host, this one too, of a loss: of a rank of another host, or of
  /// this one, which leaves. Threads: any.
  void report(const LostRank& lost) const noexcept;

  /// Gives the word back and ends the thread. Idempotent; does nothing in a forked child.
  void stop() noexcept;

 private:
  enum class State : std::uint32_t { kStarting, kHolding, kWatching, kFailed };

  void run() noexcept;
  void set_state(State state) noexcept;
  void await_watching() noexcept;
  [[nodiscard]] int next_living() const noexcept;
  [[nodiscard]] bool lives(int position) const noexcept {
    return peers_[static_cast<std::size_t>(position)].state() != Life::kGone;
  }
  void watch(int position) noexcept;
  void watch_once(int position) noexcept;
  void found_lost(int position, Loss how) noexcept;
  void take_losses() noexcept;
  void beat() noexcept;
  void look_at(int position, TimePoint time) noexcept;
  [[nodiscard]] bool is_stopped(int position) const noexcept;
  void wake_watchers() const noexcept;

  const HostSegment& segment_;
  const int position_;
  const pid_t process_;
  FutexWord state_{static_cast<std::uint32_t>(State::kStarting)};
  std::atomic<bool> stopping_{false};
  // Set before the state says kWatching; then the watch thread's.
  WatchHooks hooks_;
  std::vector<PeerLiveness> peers_;  // by position
  LossReader losses_;
  TimePoint next_beat_{};
  std::thread thread_;
};

}  // namespace ronde::net
