// Allreduces of device memory over several hosts of several ranks: a communicator of devices inside
// each host, the wires of the host's communicator between them, in slices that overlap.
#pragma once

#include <cstddef>
#include <memory>

#include "core/ports/communicator.h"
#include "ops/communicator/algorithm.h"
#include "ops/device/device_parts.h"

namespace ronde {

/// An allreduce moves in slices of about this many bytes: while one is between hosts, the next is
/// reduced inside them and the one before is gathered.
inline constexpr std::size_t kDeviceSliceBytes = std::size_t{4} << 20;

/// A communicator of two levels for device memory, of parts that have `inside`. An allreduce is
/// reduced and scattered inside each host; the i-th rank of every host carries the i-th chunk
/// between hosts, in pinned memory over `host`'s transport; then it is gathered inside. Hosts may
/// have unlike numbers of ranks: there are as many chunks as the smallest has. Everything else is
/// that of `whole`, where there is one. 16-bit types are rounded by `inside` and once more between
/// hosts. run() of an allreduce blocks until the hosts have exchanged all slices, and queues the
/// last gathering. Per host 2(m-1)/m of the bytes leave and as many come, for m hosts. Source: as
/// ops/hierarchical/collectives.h. `host` outlives it and has a transport.
std::unique_ptr<Communicator> create_device_hierarchical(
    DeviceParts parts, AlgorithmCommunicator& host, std::size_t slice_bytes = kDeviceSliceBytes);

}  // namespace ronde
