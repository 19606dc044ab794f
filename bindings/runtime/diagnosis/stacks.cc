#include "bindings/runtime/diagnosis/stacks.h"

#include <execinfo.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "bindings/runtime/diagnosis/kernel_view.h"
#include "bindings/runtime/diagnosis/symbols.h"
#include "core/base/mutex.h"

namespace ronde::diagnosis {
namespace {

constexpr int kMostFrames = 48;
constexpr std::size_t kSignalsTried = 10;

/// Where a thread writes its stack. One that does not answer in time is left to it for ever.
struct Answer {
  std::array<void*, kMostFrames> frames{};
  std::atomic<int> count{-1};
};

void answer_signal(int, siginfo_t* info, void*) {
  const int saved = errno;
  if (info->si_code == SI_QUEUE && info->si_pid == ::getpid()) {
    auto* answer = static_cast<Answer*>(info->si_value.sival_ptr);
    answer->count.store(::backtrace(answer->frames.data(), kMostFrames), std::memory_order_release);
  }
  errno = saved;
}

/// Takes the first real-time signal from above that has no handler; 0 where all have.
int install_handler() {
  struct sigaction action {};
  action.sa_sigaction = &answer_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigfillset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignalsTried; ++i) {
    const int number = SIGRTMAX - 3 - static_cast<int>(i);
    struct sigaction before {};
    if (::sigaction(number, nullptr, &before) != 0) continue;
    const bool free = (before.sa_flags & SA_SIGINFO) == 0 && before.sa_handler == SIG_DFL;
    if (free && ::sigaction(number, &action, nullptr) == 0) return number;
  }
  return 0;
}

/// The signal, installed on first use: it cannot be given back, as one may still be on its way.
int stack_signal() {
  static const int number = [] {
    void* frame = nullptr;
    ::backtrace(&frame, 1);  // loads what it needs here, not in a handler
    return install_handler();
  }();
  return number;
}

bool ask(int tid, int number, Answer* answer) {
  siginfo_t info{};
  info.si_signo = number;
  info.si_code = SI_QUEUE;
  info.si_pid = ::getpid();
  info.si_uid = ::getuid();
  info.si_value.sival_ptr = answer;
  return ::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), tid, number, &info) == 0;
}

bool wait_for(const Answer& answer, TimePoint deadline) {
  while (answer.count.load(std::memory_order_acquire) < 0) {
    if (now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

std::vector<std::string> frames_of(int tid, int number, SymbolFinder& symbols, TimePoint deadline) {
  constexpr int kHandlerFrames = 2;  // the handler itself, and the kernel's way into it
  if (number == 0 || blocks_signal(tid, number)) return {};
  auto answer = std::make_unique<Answer>();
  if (!ask(tid, number, answer.get())) return {};
  if (!wait_for(*answer, deadline)) {
    (void)answer.release();
    return {};
  }
  std::vector<std::string> frames;
  for (int i = kHandlerFrames; i < answer->count.load(); ++i) {
    frames.push_back(symbols.describe(answer->frames[static_cast<std::size_t>(i)]));
  }
  return frames;
}

}  // namespace

std::vector<ThreadStack> take_stacks(std::span<const int> tids, TimePoint deadline) {
  static Mutex mutex;
  const MutexLock lock(mutex);
  SymbolFinder symbols;
  std::vector<ThreadStack> stacks;
  const int self = ::getpid();
  for (const int tid : tids) {
    ThreadStack stack;
    stack.tid = tid;
    stack.name = thread_name(self, tid);
    stack.state = thread_state(self, tid);  // before it is disturbed
    stack.frames = frames_of(tid, stack_signal(), symbols, deadline);
    stacks.push_back(std::move(stack));
  }
  return stacks;
}

}  // namespace ronde::diagnosis
