#include "bindings/runtime/diagnosis/dump_signal.h"

#include <signal.h>

#include <array>
#include <atomic>
#include <cstddef>

#include "core/base/mutex.h"

namespace ronde::diagnosis {
namespace {

/// A process's signals are its own, so this is, too: whom the handler tells. More runtimes than
/// this in one process do without.
constexpr std::size_t kMostBells = 16;
std::array<std::atomic<Bell*>, kMostBells> g_bells{};
std::atomic<int> g_ringing{0};  // handlers at work

Mutex& install_mutex() {
  static auto* mutex = new Mutex;  // never destroyed: runtimes may end during exit
  return *mutex;
}

void ring_all(int) {
  g_ringing.fetch_add(1);
  for (auto& entry : g_bells) {
    if (Bell* bell = entry.load()) bell->ring(Reason::kSignal);
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

bool any_bell() {
  for (auto& entry : g_bells) {
    if (entry.load() != nullptr) return true;
  }
  return false;
}

}  // namespace

DumpSignal::DumpSignal(int number, Bell& bell) : number_(number) {
  if (number == 0) return;
  const MutexLock lock(install_mutex());
  if (!install(number)) return;
  for (std::size_t i = 0; i < kMostBells && place_ < 0; ++i) {
    Bell* none = nullptr;
    if (g_bells[i].compare_exchange_strong(none, &bell)) place_ = static_cast<int>(i);
  }
}

DumpSignal::~DumpSignal() {
  if (place_ < 0) return;
  const MutexLock lock(install_mutex());
  g_bells[static_cast<std::size_t>(place_)].store(nullptr);
  if (!any_bell()) uninstall(number_);
  while (g_ringing.load() != 0) {  // a handler that may still hold the bell, in another thread
  }
}

}  // namespace ronde::diagnosis
