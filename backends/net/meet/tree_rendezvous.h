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
#include <span>
#include <string>
#include <vector>

#include "backends/net/connection/handshake.h"
#include "backends/net/connection/secret.h"
#include "backends/net/connection/stream.h"
#include "backends/net/meet/rendezvous.h"
#include "core/base/abort.h"
#include "core/base/clock.h"
#include "core/base/os/endpoint.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/settings/config.h"
#include "core/base/status.h"

namespace ronde::net {

/// The place of a rank in the tree.
struct MeetingPlace {
  /// A rank that connects to this one.
  struct Child {
    int rank = -1;
    std::vector<int> behind;  ///< The ranks that meet through it, ascending.
  };

  Endpoint own;                 ///< Where the leader of this host listens.
  int parent = -1;              ///< -1 for rank 0.
  Endpoint parent_at;           ///< Where that listens.
  std::vector<Child> children;  ///< Ascending; of leaders alone.
  int levels_below = 0;
  bool open = false;  ///< Any ranks may come, and are reported as they do; `children` is empty.
};

/// The place of the rank at which all `guests` meet directly: a star.
MeetingPlace center_of(std::span<const int> guests);

/// The place of config.rank by config.rendezvous_tree; nothing where that is empty, or describes
/// another number of ranks. Errors: kInvalidArgument naming the value and what is allowed.
Result<std::optional<MeetingPlace>> place_in_meeting(const Config& config);

/// A way to the rank above.
struct WayUp {
  int rank = -1;                      ///< -1: any.
  std::vector<Endpoint> endpoints;    ///< Tried in turn, then again after a pause.
  GreetingReader read_greeting = {};  ///< Where that rank greets; else the party's keys serve.
  /// The next way is tried once nobody has let this rank in for so long, or the time has passed.
  Duration refusal_limit = Duration::max();
  Duration time = Duration::max();
};

/// The arguments of a rank. No rank has more messages than it has neighbours, times four, and they
/// take a round a level.
struct TreeRendezvousArgs {
  const Party* party = nullptr;          ///< With keys.
  const MeetingPlace* place = nullptr;   ///< Of the party's rank.
  Duration timeout{};                    ///< For the ranks that meet through this one to come.
  const CancelSource* cancel = nullptr;  ///< Ends it early; may be null.
  std::string greeting = {};             ///< Sent first on each connection that comes.
  FileDescriptor listener = {};          ///< Instead of one at place->own.
  int passed_fd = -1;                    ///< Given to each that connects; -1: nothing.
  std::vector<WayUp> ways = {};          ///< Tried in turn; empty: to place->parent_at.
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
struct TreeMeeting {
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
TreeMeeting meet_by_tree(TreeRendezvousArgs args);

}  // namespace ronde::net
