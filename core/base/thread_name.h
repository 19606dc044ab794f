// Ronde's own threads: their names, for debuggers, top and `ronde doctor --job`, and their signals.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace ronde {

/// The prefix of the names of all threads that Ronde starts.
inline constexpr const char* kThreadPrefix = "ronde-";

/// Names the calling thread: "ronde-" and a word, 15 bytes at most.
inline void name_this_thread(const char* name) noexcept {
  (void)::pthread_setname_np(::pthread_self(), name);
}

/// The calling thread takes no signals while this lives, nor does a thread that it starts: signals
/// are the user's.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace ronde
