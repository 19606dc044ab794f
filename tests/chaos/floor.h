// How soon processes of a host can know that one of them has died, by any means: the floor
// that Ronde's own times are held against.
#pragma once

namespace ronde::chaos {

/// Forks `size` children that hold `hold_mb` of memory each and wait; says "ready" with each one's
/// number and pid, and in each child "told" once another has died. Returns when all have ended.
/// The parent watches them by pidfd and tells by sockets.
int watch_children(int size, long hold_mb);

/// Takes memory and touches it, as a training process does: freeing it delays its death.
void hold_memory(long megabytes);

}  // namespace ronde::chaos
