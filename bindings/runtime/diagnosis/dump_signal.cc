#include "bindings/runtime/diagnosis/dump_signal.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>

#include "core/base/mutex.h"

namespace ronde::diagnosis {
namespace {

/// The handler is the process's, so all its runtimes share this table. Runtimes beyond this number
/// have no signal.
constexpr std::size_t kMostWakers = 16;
struct Entry {
  std::atomic<Waker*> waker{nullptr};
  std::atomic<int> number{0};
  std::atomic<Reason> reason{Reason::kSignal};
};
std::array<Entry, kMostWakers> g_wakers{};
std::atomic<int> g_waking{0};  // handlers at work

Mutex& install_mutex() {
  static auto* mutex = new Mutex;  // never destroyed: runtimes may end during exit
  return *mutex;
}

void wake_all(int number) {
  g_waking.fetch_add(1);
  for (Entry& entry : g_wakers) {
    Waker* const waker = entry.waker.load();
    if (waker != nullptr && entry.number.load() == number) waker->wake(entry.reason.load());
  }
  g_waking.fetch_sub(1);
}

bool is_ours(int number) {
  struct sigaction now {};
  return ::sigaction(number, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
         now.sa_handler == &wake_all;
}

bool has_none(int number) {
  struct sigaction now {};
  return ::sigaction(number, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
         now.sa_handler == SIG_DFL;
}

bool install(int number) {
  if (is_ours(number)) return true;
  if (!has_none(number)) return false;
  struct sigaction action {};
  action.sa_handler = &wake_all;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  return ::sigaction(number, &action, nullptr) == 0;
}

void uninstall(int number) {
  if (!is_ours(number)) return;
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(number, &action, nullptr);
}

bool any_waker(int number) {
  return std::any_of(g_wakers.begin(), g_wakers.end(), [number](const Entry& entry) {
    return entry.waker.load() != nullptr && entry.number.load() == number;
  });
}

/// The number of a free entry, or -1.
int free_entry() {
  for (std::size_t i = 0; i < kMostWakers; ++i) {
    if (g_wakers[i].waker.load() == nullptr) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

int dump_signal_number(const Config& config) {
  if (config.dump_signal == "USR1") return SIGUSR1;
  const bool wanted =
      config.dump_signal == "USR2" || (config.dump_signal == "auto" && config.secret_fd >= 0);
  return wanted ? SIGUSR2 : 0;
}

int timeline_signal_number(const Config& config) {
  if (config.timeline_signal == "off") return 0;
  return config.timeline_signal == "USR1" ? SIGUSR1 : SIGUSR2;
}

DumpSignal::DumpSignal(int number, Waker& waker, Reason reason) : number_(number) {
  if (number == 0) return;
  const MutexLock lock(install_mutex());
  if (!install(number)) return;
  place_ = free_entry();
  if (place_ < 0) return;
  Entry& entry = g_wakers[static_cast<std::size_t>(place_)];
  entry.number.store(number);
  entry.reason.store(reason);
  entry.waker.store(&waker);
}

DumpSignal::~DumpSignal() {
  if (place_ < 0) return;
  const MutexLock lock(install_mutex());
  g_wakers[static_cast<std::size_t>(place_)].waker.store(nullptr);
  if (!any_waker(number_)) uninstall(number_);
  while (g_waking.load() != 0) {  // a handler that may still hold the waker, in another thread
  }
}

}  // namespace ronde::diagnosis
