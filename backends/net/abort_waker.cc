#include "backends/net/abort_waker.h"

namespace ronde::net {

Result<AbortWaker> AbortWaker::create() {
  FileDescriptor fd = make_event();
  if (!fd.valid()) return Status(Code::kResourceExhausted, "cannot make an eventfd");
  return AbortWaker(std::move(fd));
}

// Listening does not change what a token says: callers hold them as const.
AbortWaker::Listening::Listening(const AbortWaker& waker, const AbortToken& token)
    : token_(const_cast<AbortToken&>(token)),
      id_(token_.listen([fd = waker.fd()] { notify_event(fd); })) {}

}  // namespace ronde::net
