// Gloo writes to sockets without MSG_NOSIGNAL: a peer's death must be an error, not a signal.
#pragma once

#include <csignal>
#include <ctime>

namespace ronde::gloo_backend {

/// Blocks SIGPIPE in this thread for a scope. Threads started meanwhile inherit that. A signal that
/// came is dropped. Threads: made and destroyed by one.
class SigpipeBlock {
 public:
  SigpipeBlock() noexcept {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~SigpipeBlock() {
    if (sigismember(&before_, SIGPIPE) != 0) return;  // the thread that blocked it handles it
    const timespec no_time{};
    sigtimedwait(&pipe_, nullptr, &no_time);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeBlock(const SigpipeBlock&) = delete;
  SigpipeBlock& operator=(const SigpipeBlock&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
};

}  // namespace ronde::gloo_backend
