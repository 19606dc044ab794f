// Allreduces of device memory over several hosts of several ranks: the device data plane inside
// each host, the wires of the host's data plane between them, in pieces that overlap.
#pragma once

#include <cstddef>
#include <memory>

#include "core/ports/device_plane.h"
#include "ops/device/device_parts.h"
#include "ops/execution/work_runner.h"

namespace ronde {

/// An allreduce moves in pieces of about this many bytes: while one is between hosts, the next is
/// reduced inside them and the one before is gathered.
inline constexpr std::size_t kHierarchicalPieceBytes = std::size_t{4} << 20;

/// A device data plane of two levels, of parts that have `inside`. An allreduce is reduced and
/// scattered inside each host; the i-th rank of every host carries the i-th part between hosts, in
/// pinned memory over `host`'s transport; then it is gathered inside. Hosts may have unlike numbers
/// of ranks: there are as many parts as the smallest has. Everything else is `plane`'s, where there
/// is one. 16-bit types are rounded by `inside` and once more between hosts. launch() of an
/// allreduce blocks until the hosts have met, and queues the last gathering.
/// Per host 2(m-1)/m of the bytes leave and as many come, for m hosts. Source: as
/// ops/hierarchical/allreduce.h. `host` outlives it and has a transport.
std::unique_ptr<DeviceGroup> create_hierarchical_group(
    DeviceParts parts, WorkRunner& host, std::size_t piece_bytes = kHierarchicalPieceBytes);

}  // namespace ronde
