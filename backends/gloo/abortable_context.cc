#include "backends/gloo/abortable_context.h"

#include <gloo/common/error.h>

#include <exception>
#include <utility>

namespace ronde::gloo_backend {
namespace {

using gloo::transport::UnboundBuffer;
using std::chrono::milliseconds;

class AbortableBuffer final : public UnboundBuffer {
 public:
  AbortableBuffer(std::unique_ptr<UnboundBuffer> inner, std::shared_ptr<OpenBuffers> open)
      : UnboundBuffer(inner->ptr, inner->size), inner_(std::move(inner)), open_(std::move(open)) {
    open_->add(*inner_);
  }
  ~AbortableBuffer() override { open_->remove(*inner_); }
  AbortableBuffer(const AbortableBuffer&) = delete;
  AbortableBuffer& operator=(const AbortableBuffer&) = delete;

  bool waitRecv(int* from, milliseconds timeout) override {
    return whole(inner_->waitRecv(from, timeout));
  }
  bool waitSend(int* to, milliseconds timeout) override {
    return whole(inner_->waitSend(to, timeout));
  }
  void abortWaitRecv() override { inner_->abortWaitRecv(); }
  void abortWaitSend() override { inner_->abortWaitSend(); }
  void send(int to, uint64_t slot, size_t offset, size_t bytes) override {
    inner_->send(to, slot, offset, bytes);
  }
  void recv(int from, uint64_t slot, size_t offset, size_t bytes) override {
    inner_->recv(from, slot, offset, bytes);
  }
  void recv(std::vector<int> from, uint64_t slot, size_t offset, size_t bytes) override {
    inner_->recv(std::move(from), slot, offset, bytes);
  }

 private:
  /// Throws, as Gloo's collectives take an ended wait for a finished one.
  static bool whole(bool finished) {
    if (!finished) throw gloo::IoException("the wait was ended");
    return true;
  }

  const std::unique_ptr<UnboundBuffer> inner_;
  const std::shared_ptr<OpenBuffers> open_;
};

void end_wait(UnboundBuffer& buffer) {
  buffer.abortWaitRecv();
  buffer.abortWaitSend();
}

}  // namespace

void OpenBuffers::add(UnboundBuffer& buffer) {
  const MutexLock lock(mutex_);
  buffers_.insert(&buffer);
  if (ended_) end_wait(buffer);
}

void OpenBuffers::remove(UnboundBuffer& buffer) {
  const MutexLock lock(mutex_);
  buffers_.erase(&buffer);
}

void OpenBuffers::end_waits() {
  const MutexLock lock(mutex_);
  ended_ = true;
  for (UnboundBuffer* buffer : buffers_) end_wait(*buffer);
}

AbortableContext::AbortableContext(std::shared_ptr<gloo::transport::Context> inner)
    : gloo::transport::Context(inner->rank, inner->size), inner_(std::move(inner)) {}

std::unique_ptr<gloo::transport::Pair>& AbortableContext::getPair(int peer) {
  return inner_->getPair(peer);
}

std::unique_ptr<gloo::transport::Pair>& AbortableContext::createPair(int peer) {
  return inner_->createPair(peer);
}

std::unique_ptr<UnboundBuffer> AbortableContext::createUnboundBuffer(void* data, size_t bytes) {
  return std::make_unique<AbortableBuffer>(inner_->createUnboundBuffer(data, bytes), open_);
}

void AbortableContext::set_timeout(milliseconds timeout) {
  setTimeout(timeout);
  inner_->setTimeout(timeout);
}

void AbortableContext::break_all() noexcept {
  // Gloo's interface has one call that fails all connections: an operation that times out.
  try {
    inner_->createUnboundBuffer(nullptr, 0)->waitRecv(nullptr, milliseconds(1));
  } catch (const std::exception&) {  // it says that it timed out
  }
  open_->end_waits();
}

}  // namespace ronde::gloo_backend
