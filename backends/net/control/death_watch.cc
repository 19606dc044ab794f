#include "backends/net/control/death_watch.h"

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

Presence presence_of(const RankSlot& slot) noexcept {
  return static_cast<Presence>(slot.life.presence.load(std::memory_order_acquire));
}

bool present(const RankSlot& slot) noexcept { return presence_of(slot) == Presence::kPresent; }

}  // namespace

void announce_news(const HostSegment& segment) noexcept {
  for (int r = 0; r < segment.ranks(); ++r) {
    RankSlot& slot = segment.slot(r);
    slot.inbox.news.fetch_add(1, std::memory_order_seq_cst);
    Doorbell doorbell(slot.doorbell);
    doorbell.wake(Sleeper::kBackground);
    doorbell.wake(Sleeper::kCaller);
  }
}

DeathWatch::DeathWatch(const HostSegment& segment, int rank) noexcept
    : segment_(segment),
      rank_(rank),
      process_(::getpid()),
      reported_(static_cast<std::size_t>(segment.ranks())),
      far_reported_(static_cast<std::size_t>(segment.job_ranks())) {}

DeathWatch::~DeathWatch() { stop(); }

void DeathWatch::set_state(State state) noexcept {
  state_.store(static_cast<std::uint32_t>(state), std::memory_order_seq_cst);
  futex_wake_all(state_);
}

Status DeathWatch::start() {
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

void DeathWatch::begin_watching(WatchHooks hooks) {
  hooks_ = std::move(hooks);
  silence_ = std::make_unique<SilenceWatch>(reported_.size(), kBeatInterval, hooks_.freeze_timeout);
  segment_.slot(rank_).life.beat.fetch_add(1, std::memory_order_relaxed);  // silence counts now
  set_state(State::kWatching);
}

void DeathWatch::stop() noexcept {
  if (!thread_.joinable()) return;
  if (::getpid() != process_) {  // a forked child has no such thread
    thread_.detach();
    return;
  }
  stopping_.store(true, std::memory_order_seq_cst);
  if (state_.load(std::memory_order_seq_cst) == static_cast<std::uint32_t>(State::kHolding)) {
    set_state(State::kWatching);
  }
  rouse_all();
  thread_.join();
}

void DeathWatch::tell_far_loss(const LostRank& lost) const noexcept {
  if (!segment_.note_far_loss(lost)) return;
  announce_news(segment_);
  rouse_all();
}

void DeathWatch::rouse_all() const noexcept {
  for (int r = 0; r < segment_.ranks(); ++r) {
    FutexWord& owner = segment_.slot(r).life.owner;
    owner.fetch_and(~std::uint32_t{FUTEX_WAITERS}, std::memory_order_seq_cst);
    futex_wake_all(owner);
  }
}

void DeathWatch::await_watching() noexcept {
  const auto holding = static_cast<std::uint32_t>(State::kHolding);
  while (!stopping_.load(std::memory_order_seq_cst) &&
         state_.load(std::memory_order_seq_cst) == holding) {
    futex_wait(state_, holding, kForever);
  }
}

int DeathWatch::next_present(int after) const noexcept {
  for (int step = 1; step < segment_.ranks(); ++step) {
    const int candidate = (after + step) % segment_.ranks();
    if (candidate != rank_ && present(segment_.slot(candidate))) return candidate;
  }
  return -1;
}

void DeathWatch::run() noexcept {
  name_this_thread("ronde-watch");
  RobustWord word(segment_.slot(rank_).life.owner);
  const bool held = word.take();
  set_state(held ? State::kHolding : State::kFailed);
  if (held) await_watching();
  while (!stopping_.load(std::memory_order_seq_cst)) {
    look_for_losses();
    const int next = next_present(rank_);
    if (next < 0) break;
    watch(next);
  }
  word.give_back();
}

void DeathWatch::watch(int rank) noexcept {
  while (!stopping_.load(std::memory_order_seq_cst) && present(segment_.slot(rank))) {
    look_for_losses();
    beat();
    watch_once(rank);
  }
}

/// Sleeps on the word of `rank` at most once.
void DeathWatch::watch_once(int rank) noexcept {
  FutexWord& owner = segment_.slot(rank).life.owner;
  std::uint32_t value = owner.load(std::memory_order_seq_cst);
  if ((value & FUTEX_OWNER_DIED) != 0) return found_lost(rank, Presence::kDied);
  if ((value & FUTEX_TID_MASK) == 0) return;  // released: the rank has left
  if ((value & FUTEX_WAITERS) == 0) {
    // Without this bit the kernel wakes no thread. Look at everything again.
    owner.compare_exchange_strong(value, value | FUTEX_WAITERS);
    return;
  }
  futex_wait(owner, value, next_beat_);
}

void DeathWatch::beat() noexcept {
  const TimePoint time = now();
  if (time < next_beat_) return;
  next_beat_ = time + kBeatInterval;
  segment_.slot(rank_).life.beat.fetch_add(1, std::memory_order_relaxed);
  silence_->look(time);
  for (int r = 0; r < segment_.ranks(); ++r) {
    if (r != rank_ && present(segment_.slot(r))) look_for_silence(r);
  }
}

void DeathWatch::look_for_silence(int rank) noexcept {
  const std::uint32_t beats = segment_.slot(rank).life.beat.load(std::memory_order_relaxed);
  if (beats == 0) return;  // it is still in the rendezvous with other hosts
  const auto index = static_cast<std::size_t>(rank);
  const bool stopped =
      silence_->silence(index) >= kSuspectAfter - kBeatInterval && is_stopped(rank);
  const Duration suspect_after = stopped ? Duration(kSuspectAfter) : Duration(kSuspectBusyAfter);
  const Silence what = silence_->sign(index, beats, suspect_after);
  if (what == Silence::kGivenUp) return found_lost(rank, Presence::kFrozen);
  if (what == Silence::kNone || !hooks_.on_silence) return;
  const bool back = what == Silence::kBack;
  hooks_.on_silence(rank, what, back ? silence_->silence_before(index) : silence_->silence(index));
}

/// True if a signal or a debugger has stopped the rank's watch thread.
bool DeathWatch::is_stopped(int rank) const noexcept {
  const std::uint32_t thread =
      segment_.slot(rank).life.owner.load(std::memory_order_relaxed) & FUTEX_TID_MASK;
  std::ifstream file("/proc/" + std::to_string(thread) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(") ");
  if (name_end == std::string::npos) return false;
  return text[name_end + 2] == 'T' || text[name_end + 2] == 't';
}

void DeathWatch::found_lost(int rank, Presence how) noexcept {
  auto expected = static_cast<std::uint32_t>(Presence::kPresent);
  const bool first = segment_.slot(rank).life.presence.compare_exchange_strong(
      expected, static_cast<std::uint32_t>(how));
  if (!first) return;
  look_for_far_losses();
  report(rank, how);  // the others are woken next; this process is notified at once
  announce_news(segment_);
  rouse_all();
}

void DeathWatch::look_for_losses() noexcept {
  const std::uint32_t news = segment_.slot(rank_).inbox.news.load(std::memory_order_seq_cst);
  if (news == seen_news_) return;
  seen_news_ = news;
  look_for_far_losses();
  for (int r = 0; r < segment_.ranks(); ++r) {
    const Presence presence = presence_of(segment_.slot(r));
    if (presence == Presence::kPresent) continue;
    look_for_far_losses();  // once more: it reported them before its end
    report(r, presence);
  }
}

void DeathWatch::look_for_far_losses() noexcept {
  for (int r = 0; r < segment_.job_ranks(); ++r) {
    const auto index = static_cast<std::size_t>(r);
    if (far_reported_[index]) continue;
    const auto lost = segment_.far_loss(r);
    if (!lost) continue;
    far_reported_[index] = true;
    if (hooks_.on_far_loss) hooks_.on_far_loss(*lost);
  }
}

void DeathWatch::report(int rank, Presence how) noexcept {
  const auto index = static_cast<std::size_t>(rank);
  if (reported_[index]) return;
  reported_[index] = true;
  if (hooks_.on_loss) hooks_.on_loss(rank, how);
}

}  // namespace ronde::net
