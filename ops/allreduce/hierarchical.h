// Allreduce over several hosts: inside each host the ranks reduce and scatter, then one ring for
// each lane (the i-th rank of every host) carries a part between the hosts, then the ranks of each
// host gather. Large tensors go in slices: while one is between hosts, the next is reduced.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/ports/backend.h"
#include "ops/executor.h"

namespace ronde {

/// How the ranks of a group are spread over hosts.
struct HostLayout {
  std::vector<std::vector<int>> hosts;  ///< Group ranks of each host, hosts by their lowest rank.
  std::size_t host = 0;                 ///< Of this rank.
  int local = 0;                        ///< This rank's position on its host.

  /// Parts that travel between hosts at the same time: the fewest ranks of any host.
  [[nodiscard]] int lanes() const noexcept;
  /// Whether there are several hosts, and one of them has several ranks.
  [[nodiscard]] bool has_levels() const noexcept;
};

/// The layout of a group, the same on all its ranks but for `host` and `local`.
HostLayout host_layout(const GroupSpec& group);

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
