// The ranks of one host meet on an abstract Unix socket, hosted by the lowest of them, and come
// away with a shared segment in which each holds its place; they may then watch each other.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/net/handshake.h"
#include "backends/net/host_channel.h"
#include "backends/net/meeting.h"
#include "backends/net/secret.h"
#include "core/base/status.h"

namespace ronde::net {

/// What a rank brings to the meeting of its host.
struct UnixMeetingArgs {
  Party party;             ///< Without keys; `context` is the job id.
  std::vector<int> ranks;  ///< The job's ranks of this host, ascending.
  /// Known before; otherwise the host makes one and hands it to processes of the same user.
  std::optional<Secret> secret;
  Duration timeout{};
};

/// What it takes home.
struct LocalJob {
  std::unique_ptr<HostChannel> channel;
  Roster roster;  ///< Of this host.
  Secret secret;
};

/// Where they meet. Guessable only where the secret is known or there is none.
Endpoint meeting_point(const UnixMeetingArgs& args);

/// Blocks until all have met. Errors: as host_meeting and reach_host.
Result<LocalJob> meet_on_host(UnixMeetingArgs args);

/// A segment and channel for a rank that is alone on its host: no sockets.
Result<std::unique_ptr<HostChannel>> channel_for_one();

}  // namespace ronde::net
