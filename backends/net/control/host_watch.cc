#include "backends/net/control/host_watch.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <utility>

#include "core/base/thread_name.h"

namespace ronde::net {
namespace {

/// This thread's robust list, with one word in it. It replaces the C library's list, which is empty
/// in a thread that uses no robust mutexes, until give_back(). Lives on the thread's stack.
class RobustWord {
 public:
  explicit RobustWord(FutexWord& word) : word_(word) {
    head_.list.next = &node_;
    node_.next = &head_.list;
    head_.futex_offset =
        reinterpret_cast<std::intptr_t>(&word) - reinterpret_cast<std::intptr_t>(&node_);
    head_.list_op_pending = nullptr;
  }

  bool take() noexcept {
    std::size_t length = 0;
    if (::syscall(SYS_get_robust_list, 0, &library_, &length) != 0) return false;
    word_.store(static_cast<std::uint32_t>(::syscall(SYS_gettid)), std::memory_order_seq_cst);
    return ::syscall(SYS_set_robust_list, &head_, sizeof(head_)) == 0;
  }

  void give_back() noexcept {
    if (library_ != nullptr) ::syscall(SYS_set_robust_list, library_, sizeof(head_));
    word_.store(0, std::memory_order_seq_cst);
    futex_wake_all(word_);
  }

 private:
  FutexWord& word_;
  robust_list_head* library_ = nullptr;
  robust_list_head head_{};
  robust_list node_{};
};

}  // namespace

HostWatch::HostWatch(const HostSegment& segment, int position)
    : segment_(segment), position_(position), process_(::getpid()), losses_(segment, position) {}

HostWatch::~HostWatch() { stop(); }

void HostWatch::set_state(State state) noexcept {
  state_.store(static_cast<std::uint32_t>(state), std::memory_order_seq_cst);
  futex_wake_all(state_);
}

Status HostWatch::start() {
  const auto starting = static_cast<std::uint32_t>(State::kStarting);
  {
    const SignalsBlocked blocked;
    thread_ = std::thread([this] { run(); });
  }
  while (state_.load(std::memory_order_seq_cst) == starting) {
    futex_wait(state_, starting, kForever);
  }
  if (state_.load() == static_cast<std::uint32_t>(State::kHolding)) return {};
  return {Code::kUnsupported, "this kernel has no robust futexes"};
}

void HostWatch::begin_watching(const LossLimits& limits, WatchHooks hooks) {
  hooks_ = std::move(hooks);
  peers_.assign(static_cast<std::size_t>(segment_.size()),
                PeerLiveness(LossLimits{.freeze = limits.freeze}));
  segment_.slot(position_).life.beat.fetch_add(1, std::memory_order_relaxed);  // silence counts now
  set_state(State::kWatching);
}

void HostWatch::stop() noexcept {
  if (!thread_.joinable()) return;
  if (::getpid() != process_) {  // a forked child has no such thread
    thread_.detach();
    return;
  }
  stopping_.store(true, std::memory_order_seq_cst);
  if (state_.load(std::memory_order_seq_cst) == static_cast<std::uint32_t>(State::kHolding)) {
    set_state(State::kWatching);
  }
  wake_watchers();
  thread_.join();
}

void HostWatch::report(const LostRank& lost) const noexcept {
  if (!segment_.note_loss(lost)) return;
  segment_.announce_losses();
  wake_watchers();
}

void HostWatch::wake_watchers() const noexcept {
  for (int p = 0; p < segment_.size(); ++p) {
    FutexWord& owner = segment_.slot(p).life.owner;
    owner.fetch_and(~std::uint32_t{FUTEX_WAITERS}, std::memory_order_seq_cst);
    futex_wake_all(owner);
  }
}

void HostWatch::await_watching() noexcept {
  const auto holding = static_cast<std::uint32_t>(State::kHolding);
  while (!stopping_.load(std::memory_order_seq_cst) &&
         state_.load(std::memory_order_seq_cst) == holding) {
    futex_wait(state_, holding, kForever);
  }
}

int HostWatch::next_living() const noexcept {
  for (int step = 1; step < segment_.size(); ++step) {
    const int candidate = (position_ + step) % segment_.size();
    if (lives(candidate)) return candidate;
  }
  return -1;
}

void HostWatch::run() noexcept {
  name_this_thread("ronde-watch");
  RobustWord word(segment_.slot(position_).life.owner);
  const bool held = word.take();
  set_state(held ? State::kHolding : State::kFailed);
  if (held) await_watching();
  while (!stopping_.load(std::memory_order_seq_cst)) {
    take_losses();
    const int next = next_living();
    if (next < 0) break;
    watch(next);
  }
  word.give_back();
}

void HostWatch::watch(int position) noexcept {
  while (!stopping_.load(std::memory_order_seq_cst) && lives(position)) {
    beat();
    watch_once(position);
    if (losses_.has_news()) take_losses();
  }
}

/// Sleeps on the word of a rank at most once.
void HostWatch::watch_once(int position) noexcept {
  FutexWord& owner = segment_.slot(position).life.owner;
  std::uint32_t value = owner.load(std::memory_order_seq_cst);
  if ((value & FUTEX_OWNER_DIED) != 0) return found_lost(position, Loss::kDied);
  if ((value & FUTEX_TID_MASK) == 0) return;  // released: the rank has left
  if ((value & FUTEX_WAITERS) == 0) {
    // Without this bit the kernel wakes no thread. Look at everything again.
    owner.compare_exchange_strong(value, value | FUTEX_WAITERS);
    return;
  }
  futex_wait(owner, value, next_beat_);
}

void HostWatch::beat() noexcept {
  const TimePoint time = now();
  if (time < next_beat_) return;
  next_beat_ = time + kBeatInterval;
  segment_.slot(position_).life.beat.fetch_add(1, std::memory_order_relaxed);
  for (int p = 0; p < segment_.size(); ++p) {
    if (p != position_ && lives(p)) look_at(p, time);
  }
}

void HostWatch::look_at(int position, TimePoint time) noexcept {
  PeerLiveness& peer = peers_[static_cast<std::size_t>(position)];
  const std::uint32_t beats = segment_.slot(position).life.beat.load(std::memory_order_relaxed);
  LifeSigns signs{.may_be_busy = true};
  if (beats > 0) signs.beats = beats;  // else it is still in the rendezvous with other hosts
  if (peer.silence() >= kFrozenAfter - kBeatInterval) signs.may_be_busy = !is_stopped(position);
  if (!peer.look(signs, time)) return;
  if (peer.state() == Life::kGone) return found_lost(position, *peer.loss());
  if (hooks_.on_change) hooks_.on_change(segment_.rank(position), peer);
}

/// True if a signal or a debugger has stopped the rank's watch thread.
bool HostWatch::is_stopped(int position) const noexcept {
  const std::uint32_t thread =
      segment_.slot(position).life.owner.load(std::memory_order_relaxed) & FUTEX_TID_MASK;
  std::ifstream file("/proc/" + std::to_string(thread) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(") ");
  if (name_end == std::string::npos) return false;
  return text[name_end + 2] == 'T' || text[name_end + 2] == 't';
}

void HostWatch::found_lost(int position, Loss how) noexcept {
  const bool first = segment_.note_loss({segment_.rank(position), how, segment_.rank(position_)});
  take_losses();  // this process is notified at once, the others next
  if (!first) return;
  segment_.announce_losses();
  wake_watchers();
}

void HostWatch::take_losses() noexcept {
  losses_.read([this](const LostRank& lost) {
    const int position = segment_.position(lost.rank);
    if (position >= 0) peers_[static_cast<std::size_t>(position)].lose(lost.how);
    if (hooks_.on_lost) hooks_.on_lost(lost);
  });
}

}  // namespace ronde::net
