// The connections of a service that carry nothing now, as the connection manager sees them.
#pragma once

#include "core/base/clock.h"

namespace ronde::net {

/// Called in the manager's thread, without a lock of the manager. Blocks: never.
class IdleConnections {
 public:
  virtual ~IdleConnections() = default;

  /// Answers what the peers say on them, and has the manager watch them.
  virtual void tend() = 0;

  /// When the one that was not used for longest was used; kForever: none may be ended.
  virtual TimePoint least_recent_use() = 0;

  /// Asks the peer of that one to end it.
  virtual void end_least_recent() = 0;
};

}  // namespace ronde::net
