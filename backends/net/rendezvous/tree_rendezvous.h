// The rendezvous of many hosts by a tree: each rank connects to the one above it. Introductions
// are gathered up the tree, and the verdict comes down. All learn the same roster, or error.
//
// No rank has more messages than it has neighbours, times four, and they take a round a level.
#pragma once

#include "backends/net/rendezvous/handshake.h"
#include "backends/net/rendezvous/meeting_tree.h"
#include "backends/net/rendezvous/roster.h"
#include "core/base/cancel_source.h"
#include "core/base/clock.h"
#include "core/base/status.h"

namespace ronde::net {

/// The arguments of a rank.
struct TreeRendezvousArgs {
  const Party* party = nullptr;          ///< With keys.
  const MeetingPlace* place = nullptr;   ///< Of the party's rank.
  Duration timeout{};                    ///< For the ranks that meet through this one to come.
  const CancelSource* cancel = nullptr;  ///< Ends it early; may be null.
};

/// The result.
struct TreeMeeting {
  Result<Roster> roster;
  int messages = 0;  ///< That this rank sent or received, introductions included.
};

/// Blocks until all have met. The first error goes up and down the tree; every rank that is
/// connected returns it. Errors: kTimeout naming the missing ranks, and those that meet through
/// them; kVersionMismatch; kMismatch where a rank has another mode of encryption; kRankFailure
/// where one goes away; kInvalidArgument where a rank comes twice; kUnavailable where the address
/// of this rank cannot be used.
TreeMeeting meet_by_tree(const TreeRendezvousArgs& args);

}  // namespace ronde::net
