// Collectives over several hosts, and the two levels that they share: the ranks inside a host, and
// the leaders of hosts with the wires between them.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "core/ports/communicator.h"
#include "ops/algorithms.h"
#include "ops/hierarchical/host_layout.h"
#include "ops/hierarchical/wire_thread.h"
#include "ops/selection/selector.h"
#include "ops/transfer.h"

namespace ronde {

/// Some ranks of a group as a group of their own, over the same wires.
class SubTransport final : public Transport {
 public:
  /// `members`: ranks of `whole`; `rank`: this one's position among them.
  SubTransport(Transport& whole, std::vector<int> members, int rank)
      : whole_(whole), members_(std::move(members)), rank_(rank) {}

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int size() const noexcept override { return static_cast<int>(members_.size()); }
  Result<TransferId> send(int to, std::span<const std::byte> data) override {
    return whole_.send(members_[static_cast<std::size_t>(to)], data);
  }
  Result<TransferId> recv(int from, std::span<std::byte> data) override {
    return whole_.recv(members_[static_cast<std::size_t>(from)], data);
  }
  Status wait(TransferId id, const AbortToken& abort) override { return whole_.wait(id, abort); }

 private:
  Transport& whole_;
  const std::vector<int> members_;
  const int rank_;
};

/// Smaller chunks are not split over local ranks: more messages cost more than they save.
inline constexpr std::size_t kWorthSplittingBytes = std::size_t{4} << 10;

/// The two levels of one rank, and what they work with. Views all of it.
struct Levels {
  const HostLayout& layout;
  Transport& whole;
  Communicator& inner;  ///< Among this host's ranks; does all work.
  const ReduceKernels& kernels;
  std::span<const SelectionRow> tuned;
  Scratch& scratch;
  Scratch& wire_scratch;  ///< The wire thread's.
  WireThread& wire;
  std::size_t slice_bytes;
};

/// The elements of one segment that lie in a slice. `begin` counts from the slice's beginning.
struct SlicePiece {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::size_t begin = 0;
  std::size_t count = 0;
  std::size_t segment = 0;
  std::size_t skipped = 0;  // elements of the segment before it
};

/// The pieces of all segments that lie in a slice, which counts elements of `element` bytes.
std::vector<SlicePiece> pieces_in(std::span<const Segment> segments, const Chunk& slice,
                                  std::size_t element);

/// Runs `body` with a token for the wire thread, which must not outlast the call. `abort`, or a
/// failure of `body` on this host alone, aborts the token.
Status with_wire(WireThread& wire, const AbortToken& abort,
                 const std::function<Status(const AbortToken& wire_abort)>& body);

/// Runs work of the ranks of this host, whose bytes are those of its segments.
Status run_inside(Communicator& inner, Work work, const AbortToken& abort);

/// Runs work of one rank of each host. Errors: kAborted where memory runs out.
Status run_between(const Levels& levels, Collective kind, Transport& leaders, const FlatWork& work);

/// Allreduce over several hosts. First the ranks of each host reduce and scatter. Then the i-th
/// ranks of all hosts (peers) reduce the i-th chunk between them. Then the ranks of each host
/// gather. Large tensors go in slices: while one is between hosts, the next is reduced. `between`
/// is the communicator of this rank's peers: dense, or lossy, which then applies the factors. Per
/// host 2(m-1)/m of the bytes leave and as many come, for m hosts; 16-bit types travel as fp32 and
/// are rounded once. All ranks hold the same bits. Source: Horovod's hierarchical allreduce; Cho et
/// al., "BlueConnect", SysML 2019.
Status hierarchical_allreduce(const Levels& levels, Communicator& between, const Work& work,
                              const AbortToken& abort);

/// Broadcast over several hosts: from the root to one rank of each other host, then inside the
/// hosts. Large tensors go in slices: while one is spread inside hosts, the next is between them.
/// Steps: those of the algorithm between m hosts, then those inside. The bytes enter each host but
/// the root's once: with a chain between hosts each sends them once at most.
Status hierarchical_broadcast(const Levels& levels, const Work& work, const AbortToken& abort);

/// Allgather over several hosts: each host gathers at one rank, those exchange what their hosts
/// have, and each spreads all of it inside its host.
/// Steps: those of a gather and a broadcast inside a host, and of an allgather of m hosts between.
/// (m-1)/m of the bytes enter and leave a host if chunks are even, however many ranks it has. Over
/// a lossy `between` all ranks get the values that hosts decode, those of their own host too.
Status hierarchical_allgather(const Levels& levels, Communicator& between, const Work& work,
                              const AbortToken& abort);

/// Reduce-scatter over several hosts: each host reduces at one rank, those reduce and scatter what
/// belongs to their hosts, and each scatters that inside its host.
/// Steps: those of a reduce and a scatter inside a host, and of a reduce_scatter of m hosts
/// between. Of S bytes, S less its own chunks leave a host and (m-1) times its own chunks come,
/// however many ranks it has; 16-bit types travel as fp32 and are rounded once. A lossy `between`
/// applies the factors, and the leader has the residuals of its host.
Status hierarchical_reduce_scatter(const Levels& levels, Communicator& between, const Work& work,
                                   const AbortToken& abort);

}  // namespace ronde
