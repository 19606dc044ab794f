// Agreed work, and the communicator that moves its bytes among fixed ranks. Tensors are in host
// memory or in a device's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "core/base/abort.h"
#include "core/base/collective.h"
#include "core/base/dtype.h"
#include "core/base/status.h"
#include "core/ports/device_ops.h"
#include "core/ports/phases.h"
#include "core/ports/reduce_kernels.h"
#include "core/ports/transport.h"
#include "core/ports/value_watch.h"

namespace ronde {

/// One piece of a fused operation. `in` equal to `out` means in place; other overlaps are not
/// allowed. A null `in` counts as zeros (a rank that has joined); a null `out` is not written.
struct Segment {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::size_t bytes = 0;
};

/// The place of a segment in the tensors of its bundle.
struct SegmentOrigin {
  std::size_t tensor = 0;
  std::size_t begin = 0;  ///< Its first element in the tensor.
};

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
  std::size_t bytes = 0;  ///< Of the whole operation, the same on all ranks: paths depend on it.
  std::span<const SegmentOrigin> origins =
      {};                           ///< By segment; empty: segment i is all of tensor i.
  PhaseObserver* phases = nullptr;  ///< Is notified of phases; null: none are reported.
  ValueWatch* watch = nullptr;      ///< Is shown values, see CommunicatorTraits::watches; or null.
};

/// Sum of the segments' bytes.
inline std::size_t total_bytes(const Work& work) noexcept {
  std::size_t sum = 0;
  for (const Segment& segment : work.segments) sum += segment.bytes;
  return sum;
}

/// The work that a communicator does itself, by collective, type and operation. Threads: any.
class SupportTable {
 public:
  /// Nothing.
  constexpr SupportTable() = default;

  /// The table of a predicate: `supports(Collective, DType, ReduceOp)`. It is asked about
  /// operations that are element-wise; no communicator does others itself.
  template <typename Predicate>
  static SupportTable of(Predicate supports) {
    SupportTable table;
    for (int kind = 0; kind < kCollectiveCount; ++kind) {
      for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
        for (int op = 0; op < kReduceOpCount; ++op) {
          if (!is_element_wise(static_cast<ReduceOp>(op)) ||
              !supports(static_cast<Collective>(kind), static_cast<DType>(dtype),
                        static_cast<ReduceOp>(op)))
            continue;
          table.ops_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(dtype)] |=
              static_cast<std::uint16_t>(1U << static_cast<unsigned>(op));
        }
      }
    }
    return table;
  }

  /// True if work of `kind` is there; `op` counts for kinds that reduce.
  [[nodiscard]] constexpr bool has(Collective kind, DType dtype,
                                   ReduceOp op = ReduceOp::kSum) const noexcept {
    const auto ops = ops_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(dtype)];
    return (ops >> static_cast<unsigned>(op) & 1U) != 0;
  }

 private:
  static_assert(kReduceOpCount <= 16, "a bit for each operation");
  std::array<std::array<std::uint16_t, kDTypeCount>, kCollectiveCount> ops_{};
};

/// The facts of a communicator, the same on all its ranks.
struct CommunicatorTraits {
  std::string name;                      ///< As paths and timelines show it: "shm", "nccl".
  SupportTable supports = {};            ///< The work that run() does itself.
  DeviceKind memory = DeviceKind::kCpu;  ///< Where the tensors of its work lie.
  /// run() is what it does best (shared memory). Otherwise the algorithms of ops/ use transport()
  /// unless the user asks for "native" (Gloo, MPI, TCP).
  bool native_first = false;
  /// run() takes exactly one segment (a barrier's is empty) that has every address it needs, and no
  /// factors.
  bool plain = false;
  /// Reductions are approximate. Values that are not delivered stay in the residual, in units of
  /// the result, and are sent later. The communicator applies the factors of such a reduction
  /// itself.
  bool lossy = false;
  /// Allreduces show their results to Work::watch. Where it finds one on any rank, every rank is
  /// told, and all inputs there were shown by some rank.
  bool watches = false;
  /// All waits call AbortToken::poll(): a caller that runs work itself still learns of signals.
  bool polls = true;
};

/// Stands for no stream: the work is in host memory.
inline constexpr DeviceStream kNoStream = nullptr;

/// A fixed group of ranks that can move data. Threads: one at a time.
class Communicator {
 public:
  explicit Communicator(CommunicatorTraits traits) : traits_(std::move(traits)) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] const CommunicatorTraits& traits() const noexcept { return traits_; }

  /// Does the work, which traits().supports. Host memory (kNoStream): blocks until this rank's
  /// outputs are complete and its inputs may be changed. Device memory: queues work of exactly one
  /// segment, which reads and writes in the order of `stream`. The call does not wait for the
  /// device, but may wait for other ranks. Errors: the abort's status within milliseconds;
  /// kRankFailure; kUnavailable naming a device's call. After an error outputs are undefined and
  /// the communicator is broken.
  virtual Status run(const Work& work, DeviceStream stream, const AbortToken& abort) = 0;

  /// This rank's part of an operation has failed outside of this communicator because of `why`.
  /// Others that wait for it here get the same error, where they can. No run() may follow.
  /// Blocks: never.
  virtual void abandon(const Status& /*why*/) noexcept {}

  /// Point-to-point for the algorithms in ops/, or null where there is none.
  [[nodiscard]] virtual Transport* transport() noexcept { return nullptr; }

  /// Memory that this communicator moves best (shared, registered, pinned), not initialised; null
  /// where plain memory is as good. That of a device is used in the order of `stream` alone, and
  /// giving it back waits for what is queued there. Freed with the last copy of the pointer, at the
  /// latest before the communicator.
  virtual std::shared_ptr<std::byte> allocate(std::size_t /*bytes*/, DeviceStream /*stream*/) {
    return nullptr;
  }

 private:
  const CommunicatorTraits traits_;
};

}  // namespace ronde
