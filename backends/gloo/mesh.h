// All connections of one group. Gloo throws, and its waits take no abort token. This class returns
// errors, and ends waits on an abort.
#pragma once

#include <gloo/context.h>

#include <chrono>
#include <csignal>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/gloo/abortable_context.h"
#include "core/base/abort.h"
#include "core/ports/backend.h"

namespace gloo::transport {
class Device;
}

namespace ronde::gloo_backend {

/// A Gloo context whose rendezvous goes over an Exchange. Threads: one at a time.
class Mesh final : public gloo::Context {
 public:
  /// Connects all pairs of the group. Collective over its ranks. Blocks.
  /// Errors: the abort's status; kUnavailable, the same on all ranks, naming one that failed.
  static Result<std::shared_ptr<Mesh>> connect(
      const GroupSpec& group, Exchange& exchange,
      const Result<std::shared_ptr<gloo::transport::Device>>& device);

  explicit Mesh(const GroupSpec& group);

  /// Calls `body`, which may throw and may block in Gloo's waits. An abort makes those throw. After
  /// an error all connections are broken and Gloo touches no memory of `body` any more. Errors: the
  /// abort's status; kRankFailure, about `peer` (rank in the group) where not -1.
  Status call(const AbortToken& abort, const std::function<void()>& body, int peer = -1);

 private:
  /// Creates the pairs and returns their addresses in one string, by peer.
  std::string create_pairs(const std::shared_ptr<gloo::transport::Device>& device,
                           std::chrono::milliseconds timeout);
  /// Connects to every peer, given what each one's create_pairs returned. Throws.
  void connect_pairs(const std::vector<std::string>& addresses);
  Status connect_all(const GroupSpec& group, const std::vector<std::string>& addresses);
  /// Ends blocked connects. Threads: any.
  void close_pairs() noexcept;
  Status failure(const AbortToken& abort, const std::string& what, int peer) const;

  const std::vector<int> ranks_;
  const Topology* const topology_;
  std::shared_ptr<AbortableContext> abortable_;  // also the base class's transport context
};

/// Blocks SIGPIPE in this thread for a scope: Gloo writes to sockets without MSG_NOSIGNAL, and a
/// peer's death must be an error. Threads started meanwhile inherit that. A signal that
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
