// connect_job(), with what tests may replace.
#pragma once

#include <memory>
#include <string>

#include "backends/net/factory.h"
#include "core/base/config.h"
#include "core/base/status.h"

namespace ronde::net {

/// The facts of this process that the other ranks learn.
struct ConnectOptions {
  std::string version;
  std::string host_name;
  /// Ranks with different identities are connected by TCP, even on one machine.
  std::string host_identity;
  std::shared_ptr<AbortToken> abort;  ///< May be null.
};

/// See ronde::connect_job.
Result<JobLink> connect_ranks(const Config& config, const ConnectOptions& options);

}  // namespace ronde::net
