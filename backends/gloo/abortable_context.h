// Waits of Gloo that end when a connection breaks in the middle of a message.
//
// A Gloo pair that fails ends the operations in its queues. The buffer that it reads into or writes
// from at that moment is in none of them, so its wait would never end. So this context keeps all
// buffers, and ends their waits itself.
#pragma once

#include <gloo/transport/context.h>

#include <memory>
#include <set>

#include "core/base/mutex.h"

namespace ronde::gloo_backend {

/// The unbound buffers of a context whose waits can be ended. Threads: any.
class OpenBuffers {
 public:
  void add(gloo::transport::UnboundBuffer& buffer) RONDE_EXCLUDES(mutex_);
  void remove(gloo::transport::UnboundBuffer& buffer) RONDE_EXCLUDES(mutex_);
  /// Ends the pending and the next waits of all buffers, also of those still to come.
  void end_waits() RONDE_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  bool ended_ RONDE_GUARDED_BY(mutex_) = false;
  std::set<gloo::transport::UnboundBuffer*> buffers_ RONDE_GUARDED_BY(mutex_);
};

/// Another context, whose buffers' waits throw once end_waits() was called.
class AbortableContext final : public gloo::transport::Context {
 public:
  explicit AbortableContext(std::shared_ptr<gloo::transport::Context> inner);

  std::unique_ptr<gloo::transport::Pair>& getPair(int peer) override;
  std::unique_ptr<gloo::transport::Pair>& createPair(int peer) override;
  std::unique_ptr<gloo::transport::UnboundBuffer> createUnboundBuffer(void* data,
                                                                      size_t bytes) override;

  /// The limit of connecting, and of waits without a limit of their own.
  void set_timeout(std::chrono::milliseconds timeout);

  /// Makes every pending and later wait throw; Gloo touches no buffer's memory any more. Blocks for
  /// about a millisecond. Threads: any.
  void break_all() noexcept;

 private:
  const std::shared_ptr<gloo::transport::Context> inner_;
  const std::shared_ptr<OpenBuffers> open_ = std::make_shared<OpenBuffers>();
};

}  // namespace ronde::gloo_backend
