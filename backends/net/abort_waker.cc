#include "backends/net/abort_waker.h"

#include <sys/eventfd.h>
#include <unistd.h>

namespace ronde::net {

Result<AbortWaker> AbortWaker::create() {
  Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.valid()) return Status(Code::kResourceExhausted, "cannot make an eventfd");
  return AbortWaker(std::move(fd));
}

// Listening does not change what a token says: callers hold them as const.
AbortWaker::Listening::Listening(const AbortWaker& waker, const AbortToken& token)
    : token_(const_cast<AbortToken&>(token)), id_(token_.listen([fd = waker.fd()] {
        const std::uint64_t one = 1;
        if (::write(fd, &one, sizeof(one)) < 0) return;  // full: readable anyway
      })) {}

}  // namespace ronde::net
