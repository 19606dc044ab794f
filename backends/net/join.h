// join_job, with what tests may replace.
#pragma once

#include <memory>
#include <string>

#include "backends/net/factory.h"
#include "core/base/config.h"
#include "core/base/status.h"

namespace ronde::net {

/// What this process says of itself.
struct JoinOptions {
  std::string version;
  std::string host_name;
  /// Ranks with different identities meet over TCP, even on one machine.
  std::string host_identity;
  std::shared_ptr<AbortToken> abort;  ///< May be null.
};

/// See ronde::join_job.
Result<JobLink> join(const Config& config, const JoinOptions& options);

}  // namespace ronde::net
