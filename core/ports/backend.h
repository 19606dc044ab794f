// A data plane: what moves and combines the bytes of agreed work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/abort.h"
#include "core/base/clock.h"
#include "core/base/collective.h"
#include "core/base/device.h"
#include "core/base/dtype.h"
#include "core/base/status.h"
#include "core/ports/phase_observer.h"
#include "core/ports/reduce_kernels.h"
#include "core/ports/topology.h"
#include "core/ports/transport.h"

namespace ronde {

/// One piece of a fused operation. `in` equal to `out` means in place; other overlaps are not
/// allowed. A null `in` counts as zeros (a rank that has joined); a null `out` is not written.
struct Segment {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::size_t bytes = 0;
};

class CompressedWork;  // ops/compression

// clang-format off
/// Agreed work for one group, the same on all its ranks but for addresses and uneven sizes.
/// n is the number of ranks. Each kind has these segments and sizes in bytes:
///
/// | kind           | `in`                           | `out`                        | sizes                        |
/// |----------------|--------------------------------|------------------------------|------------------------------|
/// | allreduce      | whole                          | whole                        | none                         |
/// | reduce         | whole                          | whole, at root only          | none                         |
/// | broadcast      | whole, at root only            | whole (root: may equal `in`) | none                         |
/// | allgather      | this rank's chunk              | whole                        | chunk_bytes, n per segment   |
/// | gather         | this rank's chunk              | whole, at root only          | chunk_bytes, n per segment   |
/// | reduce_scatter | whole                          | this rank's chunk            | chunk_bytes, n per segment   |
/// | scatter        | whole, at root only            | this rank's chunk            | chunk_bytes, n per segment   |
/// | alltoall       | packed by receiver             | packed by sender             | send_bytes[n], recv_bytes[n] |
/// | barrier        | no segments                    | no segments                  | none                         |
///
/// An alltoall has exactly one segment, a barrier none, every other kind any number.
/// Segment s owns chunk_bytes[s*n .. (s+1)*n). Chunk r of the whole tensor starts at the sum of the
/// chunks before it. `bytes` of the segment is the sum of all n.
// clang-format on
struct Work {
  Collective kind = Collective::kBarrier;
  Reduction reduction;  ///< dtype always; op and scaling for kinds that reduce.
  int root = 0;         ///< Rank in the group.
  std::span<const Segment> segments;
  std::span<const std::size_t> chunk_bytes;
  std::span<const std::size_t> send_bytes;
  std::span<const std::size_t> recv_bytes;
  CompressedWork* compression = nullptr;  ///< Null but for planes that compress().
  PhaseObserver* phases = nullptr;        ///< May be told of phases; null: nobody listens.
};

/// Sum of the segments' bytes.
std::size_t total_bytes(const Work& work) noexcept;

/// What a backend is asked about before it is given Work.
struct WorkDesc {
  Collective kind = Collective::kBarrier;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  Device device;
  std::size_t bytes = 0;
  bool compressed = false;
};

/// Lets the ranks of one group exchange small values while a backend sets the group up, over the
/// control channel. Calls match in order.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// Blocks until every rank of the group has called it; returns all values by group rank.
  /// Errors: kRankFailure, kTimeout, kInvalidArgument (over 64 KiB).
  virtual Result<std::vector<std::string>> allgather(std::string_view mine) = 0;
};

/// The group a data plane is opened for.
struct GroupSpec {
  std::uint64_t key = 0;   ///< The same on all ranks, unlike any other group's of this job.
  std::vector<int> ranks;  ///< The job's ranks in it, ascending.
  int rank = 0;            ///< This process's position in `ranks`.
  const Topology* topology = nullptr;
  std::shared_ptr<AbortToken> abort;  ///< Aborts everything that is done for this group.
  TimePoint deadline = kForever;      ///< Ranks give up opening the group then.

  [[nodiscard]] int size() const noexcept { return static_cast<int>(ranks.size()); }
  /// True where all ranks of the group run on this host.
  [[nodiscard]] bool on_one_host() const;
};

/// A data plane opened for one group. Threads: one at a time.
class BackendGroup {
 public:
  virtual ~BackendGroup() = default;

  /// Whether run() can do this. The answer is the same on all ranks.
  [[nodiscard]] virtual bool supports(const WorkDesc& desc) const noexcept = 0;

  /// Does the work; blocks until this rank's outputs are complete and its inputs may be changed.
  /// Errors: the abort's status within milliseconds; kRankFailure. After an error outputs are
  /// undefined and the group is broken.
  virtual Status run(const Work& work, const AbortToken& abort) = 0;

  /// Point-to-point for the algorithms in ops/, or null where this data plane has none.
  [[nodiscard]] virtual Transport* transport() noexcept = 0;

  /// Memory that this data plane moves best (shared, registered, pinned); null where plain memory
  /// is as good. Freed with the last copy of the pointer, at the latest before the group.
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;

  /// Whether run() heeds Work::compression. Otherwise compressed work goes over transport().
  [[nodiscard]] virtual bool compresses() const noexcept { return false; }

  /// Whether all waits in here call AbortToken::poll(), so that a caller may run work itself and
  /// still hear of its user's signals.
  [[nodiscard]] virtual bool polls() const noexcept { return true; }
};

/// A library or mechanism that can carry data.
class Backend {
 public:
  virtual ~Backend() = default;

  /// As users write it after --backend: "shm", "gloo", "mpi", "local", "tcp".
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;

  /// Whether run() is what it does best (shared memory), or only on request with --algorithm native
  /// while the algorithms in ops/ use its transport by default (Gloo, MPI, TCP).
  [[nodiscard]] virtual bool native_first() const noexcept = 0;

  /// Ok where it can serve this group, otherwise a sentence that says why not. Cheap; depends on
  /// this process only, so ranks may differ: the caller agrees on a common answer.
  virtual Status viable(const GroupSpec& group) = 0;

  /// Memory that groups of this backend move best, for tensors of any of them; zeros; null where
  /// plain memory is as good. It lives as long as the pointer, past the backend. Threads: any.
  virtual std::shared_ptr<std::byte> allocate(std::size_t /*bytes*/) { return nullptr; }

  /// Opens the group: collective over its ranks, in the same order on each. Blocks.
  virtual Result<std::unique_ptr<BackendGroup>> open(const GroupSpec& group,
                                                     Exchange& exchange) = 0;
};

}  // namespace ronde
