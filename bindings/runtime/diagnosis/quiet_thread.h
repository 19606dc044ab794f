// Threads that no signal of the process is delivered to.
#pragma once

#include <signal.h>

#include <thread>
#include <utility>

namespace ronde::diagnosis {

/// Gives the thread its signal mask back.
class SignalMask {
 public:
  explicit SignalMask(const sigset_t& mask) : mask_(mask) {}
  ~SignalMask() { pthread_sigmask(SIG_SETMASK, &mask_, nullptr); }
  SignalMask(const SignalMask&) = delete;
  SignalMask& operator=(const SignalMask&) = delete;

 private:
  const sigset_t mask_;
};

/// Starts a thread that runs `body` with all signals blocked. Errors: std::system_error.
std::thread start_without_signals(auto body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const SignalMask restored(before);
  return std::thread(std::move(body));
}

}  // namespace ronde::diagnosis
