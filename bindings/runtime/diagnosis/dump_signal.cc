#include "bindings/runtime/diagnosis/dump_signal.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>

#include "core/base/mutex.h"

namespace ronde::diagnosis {
namespace {

/// A process's signals are its own, so this is, too: whom the handler tells. More runtimes than
/// this in one process do without.
constexpr std::size_t kMostBells = 16;
struct Entry {
  std::atomic<Bell*> bell{nullptr};
  std::atomic<int> number{0};
  std::atomic<Reason> reason{Reason::kSignal};
};
std::array<Entry, kMostBells> g_bells{};
std::atomic<int> g_ringing{0};  // handlers at work

Mutex& install_mutex() {
  static auto* mutex = new Mutex;  // never destroyed: runtimes may end during exit
  return *mutex;
}

void ring_all(int number) {
  g_ringing.fetch_add(1);
  for (Entry& entry : g_bells) {
    Bell* const bell = entry.bell.load();
    if (bell != nullptr && entry.number.load() == number) bell->ring(entry.reason.load());
  }
  g_ringing.fetch_sub(1);
}

bool is_ours(int number) {
  struct sigaction now {};
  return ::sigaction(number, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
         now.sa_handler == &ring_all;
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
  action.sa_handler = &ring_all;
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

bool any_bell(int number) {
  return std::any_of(g_bells.begin(), g_bells.end(), [number](const Entry& entry) {
    return entry.bell.load() != nullptr && entry.number.load() == number;
  });
}

/// The number of a free entry, or -1.
int free_entry() {
  for (std::size_t i = 0; i < kMostBells; ++i) {
    if (g_bells[i].bell.load() == nullptr) return static_cast<int>(i);
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

DumpSignal::DumpSignal(int number, Bell& bell, Reason reason) : number_(number) {
  if (number == 0) return;
  const MutexLock lock(install_mutex());
  if (!install(number)) return;
  place_ = free_entry();
  if (place_ < 0) return;
  Entry& entry = g_bells[static_cast<std::size_t>(place_)];
  entry.number.store(number);
  entry.reason.store(reason);
  entry.bell.store(&bell);
}

DumpSignal::~DumpSignal() {
  if (place_ < 0) return;
  const MutexLock lock(install_mutex());
  g_bells[static_cast<std::size_t>(place_)].bell.store(nullptr);
  if (!any_bell(number_)) uninstall(number_);
  while (g_ringing.load() != 0) {  // a handler that may still hold the bell, in another thread
  }
}

}  // namespace ronde::diagnosis
