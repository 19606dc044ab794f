// The rendezvous along a tree, of any fan-out: each rank connects to the one above it.
// Introductions are gathered up the tree, and the verdict comes down. All learn the same roster, or
// error.
//
// The ranks of a host meet at its leader. Where the launcher lays out the tree, that is the lowest
// one, and leaders have up to eight leaders below each. Elsewhere the leader is the first rank that
// takes a Unix socket of the job, and leaders meet at rank 0: a star. Nobody needs to know which
// ranks share a host then, or how many they are.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/net/connection/handshake.h"
#include "backends/net/connection/secret.h"
#include "backends/net/connection/stream.h"
#include "backends/net/meet/rendezvous.h"
#include "backends/net/meet/rendezvous_place.h"
#include "core/base/abort.h"
#include "core/base/clock.h"
#include "core/base/os/endpoint.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde::net {

/// A way to the rank above.
struct WayUp {
  int rank = -1;                      ///< -1: any.
  std::vector<Endpoint> endpoints;    ///< Tried in turn, then again after a pause.
  GreetingReader read_greeting = {};  ///< Where that rank greets; else the identity's keys serve.
  /// The next way is tried once nobody has let this rank in for so long, or the time has passed.
  Duration refusal_limit = Duration::max();
  Duration time = Duration::max();
};

/// The arguments of a rank. No rank has more messages than it has neighbours, times four, and they
/// take a round a level.
struct TreeRendezvousArgs {
  const Identity* identity = nullptr;      ///< With keys.
  const RendezvousPlace* place = nullptr;  ///< Of the identity's rank.
  Duration timeout{};                      ///< For the ranks that meet through this one to come.
  const CancelSource* cancel = nullptr;    ///< Ends it early; may be null.
  std::string greeting = {};               ///< Sent first on each connection that comes.
  FileDescriptor listener = {};            ///< Instead of one at place->own.
  int passed_fd = -1;                      ///< Given to each that connects; -1: nothing.
  std::vector<WayUp> ways = {};            ///< Tried in turn; empty: to place->parent_at.
  /// Takes what the rank above passes. Its error ends the rendezvous. May block.
  std::function<Status(Stream& parent)> on_reached = {};
  /// For the verdict, from the report on; zero: as long as ranks that start now may need.
  Duration verdict_time{};
  /// The job's secret, where a greeting or the rank above brings it. An open place passes it on.
  std::optional<Secret>* secret = nullptr;
  /// Adds a remedy to the error of a rank above that cannot be reached.
  std::function<Status(const Status&)> advise = {};
};

/// The result.
struct TreeResult {
  Result<Roster> roster;
  int messages = 0;     ///< That this rank sent or received, introductions included.
  int connections = 0;  ///< Of ranks below.
};

/// Blocks until all have met. The first error goes up and down the tree; every rank that is
/// connected returns it. Errors: kTimeout naming the missing ranks, and those that meet through
/// them; kVersionMismatch; kMismatch where a rank has another mode of encryption; kRankFailure
/// where one goes away; kInvalidArgument where a rank comes twice, or came with another secret;
/// kUnavailable where the address of this rank cannot be used; those of a GreetingReader and of
/// `on_reached`.
TreeResult meet_by_tree(TreeRendezvousArgs args);

}  // namespace ronde::net
