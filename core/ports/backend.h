// A library or mechanism that can carry data, and what it opens communicators for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/abort.h"
#include "core/base/clock.h"
#include "core/base/collective.h"
#include "core/base/dtype.h"
#include "core/base/status.h"
#include "core/ports/communicator.h"
#include "core/ports/device_ops.h"
#include "core/ports/topology.h"

namespace ronde {

/// Lets the ranks of one group exchange small values while a backend sets the group up, over the
/// control channel. Calls match in order.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// Blocks until every rank of the group has called it; returns all values by group rank.
  /// Errors: kRankFailure, kTimeout, kInvalidArgument (over 64 KiB).
  virtual Result<std::vector<std::string>> allgather(std::string_view mine) = 0;
};

/// The group a communicator is opened for.
struct GroupSpec {
  std::uint64_t key = 0;   ///< The same on all ranks, unlike any other group's of this job.
  std::vector<int> ranks;  ///< The job's ranks in it, ascending.
  int rank = 0;            ///< This process's position in `ranks`.
  const Topology* topology = nullptr;
  std::shared_ptr<AbortToken> abort;            ///< Aborts everything that is done for this group.
  TimePoint deadline = kForever;                ///< Ranks give up opening the group then.
  std::shared_ptr<DeviceOps> device = nullptr;  ///< Of this rank's tensors; null: host memory.

  [[nodiscard]] int size() const noexcept { return static_cast<int>(ranks.size()); }
  /// True where all ranks of the group run on this host.
  [[nodiscard]] bool on_one_host() const {
    return std::all_of(ranks.begin(), ranks.end(),
                       [&](int r) { return topology->same_host(ranks.front(), r); });
  }
};

/// A library or mechanism that can carry data. Threads: any.
class Backend {
 public:
  virtual ~Backend() = default;

  /// As users write it after --backend: "shm", "gloo", "mpi", "local", "tcp", "nccl".
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;

  /// The kind of memory its communicators move.
  [[nodiscard]] virtual DeviceKind memory() const noexcept { return DeviceKind::kCpu; }

  /// Ok where it can serve this group, otherwise a sentence that says why not. Cheap; depends on
  /// this process only, so ranks may differ: the caller agrees on a common answer.
  virtual Status viable(const GroupSpec& group) = 0;

  /// Memory that groups of this backend move best, for tensors of any of them; zeros; null where
  /// plain memory is as good. It lives as long as the pointer, past the backend. Threads: any.
  virtual std::shared_ptr<std::byte> allocate(std::size_t /*bytes*/) { return nullptr; }

  /// Opens a communicator of the group: collective over its ranks, in the same order on each.
  /// Blocks. `group.device` is set where memory() is a device's.
  virtual Result<std::unique_ptr<Communicator>> open(const GroupSpec& group,
                                                     Exchange& exchange) = 0;
};

}  // namespace ronde
