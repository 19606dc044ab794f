// What the meetings over Unix sockets and over TCP have in common: one rank hosts, the others are
// guests; all of them learn the same roster, or the same error.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/net/gate.h"
#include "backends/net/handshake.h"
#include "backends/net/socket.h"
#include "core/base/clock.h"
#include "core/base/status.h"

namespace ronde::net {

/// Who has come, by rank.
using Roster = std::map<int, Introduction>;

/// What the host of a meeting needs.
struct HostArgs {
  const Party* party = nullptr;
  Gate* gate = nullptr;     ///< Already listening.
  std::vector<int> guests;  ///< Ranks to wait for.
  int passed_fd = -1;       ///< Given to each guest, which then acknowledges; -1: nothing.
  TimePoint deadline;
};

/// Waits until all guests have come (and acknowledged), then sends all the roster.
/// Errors, also sent to those that have come: kTimeout naming the missing ranks, kVersionMismatch,
/// kRankFailure where a guest went away, kInvalidArgument where a rank came twice.
Result<Roster> host_meeting(const HostArgs& args);

/// What a guest needs to reach the host.
struct GuestArgs {
  Party* party = nullptr;
  int host_rank = 0;
  std::vector<Endpoint> endpoints;  ///< Tried in turn, again and again.
  /// Unix meeting: the host first sends a greeting, which may hold the job's secret.
  bool greeted = false;
  std::optional<Secret> secret;  ///< Unknown: taken from the greeting.
  TimePoint deadline;
};

/// An authenticated connection to the host of a meeting.
struct HostConnection {
  FileDescriptor socket;
  Introduction host;
  Secret secret;
};

/// Errors: kTimeout saying whom it could not reach where and why, kVersionMismatch,
/// kInvalidArgument where host and guest hold different secrets.
Result<HostConnection> reach_host(const GuestArgs& args);

/// Tells the host that the descriptor it passed is in use. Where the host is gone, its verdict says
/// why.
void acknowledge(int socket);

/// That the host has gone away meanwhile: kRankFailure.
Status host_is_gone(const HostConnection& connection, const GuestArgs& args, std::string_view why);

/// Waits for the host's verdict. Errors: what the host says; kRankFailure where it goes away.
Result<Roster> await_verdict(const HostConnection& connection, const GuestArgs& args,
                             TimePoint deadline);

/// The greeting of a Unix meeting: whether a secret is handed over, and the secret.
std::string make_greeting(const std::optional<Secret>& handed_over);
inline constexpr std::size_t kGreetingBytes = 1 + Secret::kBytes;

/// "rank 3 (pid 17 on node1)".
std::string describe(int rank, const Introduction& who);

}  // namespace ronde::net
