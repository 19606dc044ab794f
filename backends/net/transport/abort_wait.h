// Waits of transports that a token ends, and the reason of their end.
#pragma once

#include "core/base/abort.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde::net {

/// A sleep in poll() lasts at most so long; then its token is looked at.
inline constexpr int kSleepSliceMs = 50;

/// Makes `wake` readable when the token aborts, as long as this lives.
class AbortListening {
 public:
  AbortListening(int wake, const AbortToken& token)
      : token_(token), id_(token.listen([wake] { notify_event(wake); })) {}
  ~AbortListening() { token_.unlisten(id_); }
  AbortListening(const AbortListening&) = delete;
  AbortListening& operator=(const AbortListening&) = delete;

 private:
  const AbortToken& token_;
  const int id_;
};

/// The error of a connection that broke. The control channel soon reports which rank died. It need
/// not be the peer, which may only have left because of it. Blocks: until the token aborts, 250 ms
/// at most.
Status wait_for_verdict(const Status& error, const AbortToken& abort);

}  // namespace ronde::net
