// The common part of the rendezvous over Unix sockets and over TCP: one rank hosts, the others are
// guests. All of them learn the same roster, or the same error.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/net/link/stream.h"
#include "backends/net/rendezvous/connector.h"
#include "backends/net/rendezvous/handover.h"
#include "backends/net/rendezvous/handshake.h"
#include "backends/net/rendezvous/roster.h"
#include "backends/net/rendezvous/socket.h"
#include "core/base/clock.h"
#include "core/base/status.h"

namespace ronde::net {

/// For one message of a rendezvous to be sent or received.
inline constexpr std::chrono::seconds kMessageLimit{2};
/// For peers to close after an error.
inline constexpr std::chrono::milliseconds kLinger{500};

/// The arguments of the host.
struct HostArgs {
  const Party* party = nullptr;
  Connector* connector = nullptr;  ///< Already listening.
  std::vector<int> guests;         ///< Ranks to wait for.
  /// Given to each guest, which then acknowledges; -1: nothing. Guests may then report further
  /// ranks, for which they come too.
  int passed_fd = -1;
  WaitLimit limit;
};

/// The result of the host.
struct HostMeeting {
  Result<Roster> roster;
  int connections = 0;  ///< Of guests.
  int messages = 0;     ///< Introductions, reports and verdicts.
};

/// Waits until all guests have come (and acknowledged), then sends all the roster. The guests that
/// have come get the error too. Errors: kTimeout naming the missing ranks; kVersionMismatch;
/// kMismatch where a guest has another mode of encryption;
/// kRankFailure if a guest went away; kInvalidArgument if a rank came twice; those that guests
/// report.
HostMeeting host_rendezvous(const HostArgs& args);

/// Reports to the host, of whose guests this is one, that these ranks have come too, or an error
/// that ends the rendezvous. Best effort: await_verdict() finds out if the host is gone.
void report_to_host(Stream& stream, const Result<Roster>& report);

/// The arguments of a guest.
struct GuestArgs {
  Party* party = nullptr;
  int host_rank = 0;                ///< -1: any.
  std::vector<Endpoint> endpoints;  ///< Tried in turn, then again after a pause.
  /// Over Unix sockets the host first sends a greeting, which may hold the job's secret.
  bool greeted = false;
  std::optional<Secret> secret;            ///< Unknown: taken from the greeting.
  const HandoverArgs* handover = nullptr;  ///< The greeting is that of a SecretOffer.
  WaitLimit limit;
  /// Spends a pause between attempts; without one it sleeps.
  std::function<void(Duration)> pause = {};
};

/// An authenticated connection to the host.
struct HostConnection {
  Stream stream;
  int rank = -1;  ///< Of the host.
  Introduction host;
  Secret secret;
};

/// Errors: kTimeout naming rank, address and reason, kVersionMismatch, kMismatch (encryption),
/// kInvalidArgument where host and guest hold different secrets.
Result<HostConnection> reach_host(const GuestArgs& args);

/// One attempt, at the first endpoint. Errors: kRankFailure where nobody listens, kTimeout where
/// nobody answers, else as reach_host or kUnavailable.
Result<HostConnection> try_to_reach(const GuestArgs& args);

/// Notifies the host that the descriptor it passed is in use. If the host is gone, await_verdict()
/// returns why.
void acknowledge(Stream& stream);

/// The error that the host has gone away meanwhile: kRankFailure.
Status host_is_gone(const HostConnection& connection, std::string_view why);

/// Waits for the host's verdict. Errors: the host's; kRankFailure where it goes away.
Result<Roster> await_verdict(HostConnection& connection, int job_ranks, const WaitLimit& limit);

/// Reads and drops what a peer sends until it closes: closing while its bytes arrive would cost it
/// the verdict.
void drain(Stream& stream, const WaitLimit& limit);

/// The greeting over Unix sockets: whether it hands over a secret, and the secret.
std::string make_greeting(const std::optional<Secret>& handed_over);
inline constexpr std::size_t kGreetingBytes = 1 + Secret::kBytes;

/// "rank 3 (pid 17 on node1)".
std::string describe(int rank, const Introduction& who);

/// The errors of a rank that has connected: it went away; another process has the same rank; it
/// connects where it is not expected.
Status went_away(int rank, const Introduction& who, std::string_view why = {});
Status came_twice(int rank, const Introduction& first, const Introduction& second);
Status does_not_belong(int rank, const Introduction& who);

}  // namespace ronde::net
