// Copies of a rank's state that outlive its process: the host's agent keeps their memory files, and
// gives them to the next worker that it starts.
#pragma once

#include "bindings/elastic/commit_store.h"
#include "bindings/elastic/member.h"
#include "core/base/status.h"

namespace ronde::elastic {

/// The copies of a worker that has died on this host, as its agent passes them; they are given
/// once. An empty store where there are none. Files that are no copies are left out.
CommitStore take_inherited_copies(const Member* member);

/// From now on the agent gets each memory file of the store. Errors: kUnavailable.
Status share_copies(CommitStore& store, Member& member);

}  // namespace ronde::elastic
