// Ranks as threads of one process: a whole job without processes, sockets or shared memory, for
// tests, examples and simulation.
#pragma once

#include <memory>
#include <vector>

#include "core/ports/backend.h"
#include "core/ports/control_channel.h"
#include "tests/support/local/hub.h"

namespace ronde {

/// A job of `size` ranks. `host_of_rank` pretends that ranks with unequal numbers run on different
/// hosts; empty means one host.
std::shared_ptr<LocalHub> create_local_hub(int size, const std::vector<int>& host_of_rank = {});

/// The control channel of `rank`; at most one for each rank. As strict as the channels between
/// processes: a frame wakes no rank before kick(). Destroying it closes it.
std::unique_ptr<ControlChannel> create_local_channel(std::shared_ptr<LocalHub> hub, int rank);

/// The data plane of `rank`: a transport that copies once, from the sender's memory into the
/// receiver's. A send is done only when its receiver has copied it, which exposes algorithms that
/// rely on buffering.
std::unique_ptr<Backend> create_local_backend(std::shared_ptr<LocalHub> hub, int rank);

}  // namespace ronde
