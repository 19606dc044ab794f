// Learns within a fraction of a millisecond that a rank of this host died.
//
// Each rank's watch thread holds a robust futex in the host segment. The `owner` word holds its
// thread id, and the thread's robust list (set_robust_list(2)) names the word. When the process
// ends in any way, the kernel sets FUTEX_OWNER_DIED in the word and wakes one waiter. It does so
// before it frees memory. The ranks of a host watch in a ring: each waits on the word of the next
// present rank. The rank that finds a death marks it in the segment, wakes all other watch threads
// and sleepers, and watches the next rank. A rank that leaves on purpose marks that before it
// releases its word.
//
// A frozen process does not end. So each watch thread also counts up a beat, and reads the beats of
// all ranks of the host. A silent rank is suspected at once if the kernel reports it as stopped,
// else after four seconds. After the freeze timeout it is marked as frozen for good.
//
// To wake a watch thread, FUTEX_WAITERS is cleared in the word it waits on, then the word is woken.
// A thread about to sleep finds the word changed, so no wake-up is lost.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "backends/net/control/host_segment.h"
#include "backends/net/control/liveness.h"
#include "core/base/status.h"

namespace ronde::net {

/// Notifies all ranks of the segment of a changed presence or a loss, and wakes their sleepers.
void announce_news(const HostSegment& segment) noexcept;

/// The events of the watch thread.
struct WatchHooks {
  /// Once for each rank that left, died or was given up, perhaps this one. May be empty.
  std::function<void(int rank, Presence how)> on_loss;
  /// Once for each rank of another host that a rank of this one has reported as lost. Comes before
  /// the loss of the rank that reports it. May be empty.
  std::function<void(const LostRank&)> on_far_loss;
  /// A rank is suspected, or runs again, after this silence. May be empty.
  std::function<void(int rank, Silence what, Duration silence)> on_silence;
  Duration freeze_timeout{0};  ///< Silence after which a rank is given up; zero: never.
};

/// The watch of one rank: a thread from start() to stop().
class DeathWatch {
 public:
  /// `segment` outlives this.
  DeathWatch(const HostSegment& segment, int rank) noexcept;
  ~DeathWatch();
  DeathWatch(const DeathWatch&) = delete;
  DeathWatch& operator=(const DeathWatch&) = delete;

  /// Takes this rank's word: from now on its death shows. Blocks until the thread has it.
  /// Errors: kUnsupported where the kernel has no robust futexes.
  Status start();

  /// Begins to watch the others; only once all of them have started.
  void begin_watching(WatchHooks hooks);

  /// Notifies the ranks of this host, this one too, that a rank of another host is lost.
  /// Otherwise they may take this rank's departure for the cause. Threads: any.
  void tell_far_loss(const LostRank& lost) const noexcept;

  /// Gives the word back and ends the thread. Idempotent; does nothing in a forked child.
  void stop() noexcept;

 private:
  enum class State : std::uint32_t { kStarting, kHolding, kWatching, kFailed };

  void run() noexcept;
  void set_state(State state) noexcept;
  void await_watching() noexcept;
  [[nodiscard]] int next_present(int after) const noexcept;
  void watch(int rank) noexcept;
  void watch_once(int rank) noexcept;
  void found_lost(int rank, Presence how) noexcept;
  void look_for_losses() noexcept;
  void look_for_far_losses() noexcept;
  void beat() noexcept;
  void look_for_silence(int rank) noexcept;
  [[nodiscard]] bool is_stopped(int rank) const noexcept;
  void rouse_all() const noexcept;
  void report(int rank, Presence how) noexcept;

  const HostSegment& segment_;
  const int rank_;
  const pid_t process_;
  FutexWord state_{static_cast<std::uint32_t>(State::kStarting)};
  std::atomic<bool> stopping_{false};
  // Set before the state says kWatching; then the watch thread's.
  WatchHooks hooks_;
  std::unique_ptr<SilenceWatch> silence_;
  TimePoint next_beat_{};
  std::vector<bool> reported_;
  std::vector<bool> far_reported_;  // by rank of the job
  std::uint32_t seen_news_ = 0;
  std::thread thread_;
};

}  // namespace ronde::net
