// Allreduce over several hosts: inside each host the ranks reduce and scatter, then one ring for
// each lane (the i-th rank of every host) carries a part between the hosts, then the ranks of each
// host gather. Large tensors go in slices: while one is between hosts, the next is reduced.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/ports/backend.h"
#include "ops/execution/executor.h"
#include "ops/hierarchical/host_layout.h"

namespace ronde {

/// What a hierarchical plane is made of.
struct HierarchyOptions {
  HostLayout layout;
  ExecutorOptions inner;                ///< For the ranks of this host, in the layout's order.
  std::unique_ptr<BackendGroup> outer;  ///< Of the whole group; has a transport.
  std::shared_ptr<const ReduceKernels> kernels;
  std::vector<SelectionRow> tuned;  ///< As ExecutorOptions has it, for between hosts.
  bool deterministic = false;
  /// While one slice is between hosts, the next is reduced inside them.
  std::size_t slice_bytes = std::size_t{8} << 20;
};

/// A data plane of two levels. It does allreduce, broadcast, allgather and (where bits need not be
/// the same whatever the placement) reduce_scatter by itself; everything else runs over `outer`'s
/// transport. Allreduce: per host 2(m-1)/m of the bytes leave and as many
/// come, for m hosts; 16-bit types travel as fp32 and are rounded once. All ranks hold the same
/// bits. Source: Horovod's hierarchical allreduce; Cho et al., "BlueConnect", SysML 2019.
std::unique_ptr<BackendGroup> create_hierarchical_plane(HierarchyOptions options);

}  // namespace ronde
