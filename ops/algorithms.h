// The algorithms of ops/: each written once over a Transport, in a file of its collective's folder.
// Comments give steps, bytes and order of addition; n is the number of ranks, S the tensor's bytes.
// The tables of ops/selection/selector.cc offer them to users.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/base/abort.h"
#include "core/base/dtype.h"
#include "core/ports/phases.h"
#include "core/ports/reduce_kernels.h"
#include "core/ports/transport.h"
#include "ops/transfer.h"

namespace ronde {

/// The arguments of an algorithm. A Work of one segment is not enough: it only views its segment,
/// and an algorithm needs kernels and a token too, and changes addresses from step to step.
/// Fields mean what they mean in Work. `in` and `out` are not null where bytes are read or written.
/// Equal `in` and `out` mean in place.
struct FlatWork {
  const ReduceKernels& kernels;
  const AbortToken& abort;
  Reduction reduction;
  int root = 0;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::size_t bytes = 0;
  std::span<const std::size_t> chunk_bytes = {};
  std::span<const std::size_t> send_bytes = {};
  std::span<const std::size_t> recv_bytes = {};
  PhaseObserver* phases = nullptr;  ///< Gets the phases; may be null.
};

/// Reduces given chunks of `work.in`: rank r's `work.out` gets the sum of chunks[r]. Ignores
/// `work.chunk_bytes`. `work.out` may be this rank's own chunk of `work.in`.
using ReduceChunks = Status (*)(Transport& transport, const FlatWork& work,
                                std::span<const Chunk> chunks, Scratch& scratch);

// --- allreduce: ops/allreduce/

/// For the smallest tensors.
/// Binomial reduce to rank 0, then binomial broadcast.
/// At most 2 ceil(log2 n) steps; all ranks together send 2 (n-1) S bytes (3 (n-1) S for 16-bit
/// floating types, whose partials travel as fp32 and are rounded once). Order: neighbours first:
/// ((0 1) (2 3)) ((4 5) ...), at rank 0, and copied from there.
Status tree_allreduce(Transport& transport, const FlatWork& work, Scratch& scratch);

/// Few steps and few bytes, for medium tensors.
/// Reduce-scatter by halving, allgather by doubling. Of n ranks p, the largest power of two, take
/// part. Each other rank r sends its input to rank r-p first and gets the result last, S bytes each
/// way.
/// 2 log2 p steps, and 2 more where n is no power of two. Each of the p ranks sends 2(p-1)/p S
/// bytes; 3(p-1)/p S for 16-bit floating types, whose partials travel as fp32 and are rounded once.
/// Order: (r r+p) first, then by halves; each element is combined at one rank and copied.
/// Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in
/// MPICH", 2005.
Status halving_doubling_allreduce(Transport& transport, const FlatWork& work, Scratch& scratch);

/// Optimal in bytes, for large tensors.
/// Reduce-scatter and allgather, both around the ring.
/// 2(n-1) steps (the first half for every two slices of at most 512 KiB of a chunk). Each rank
/// sends 2(n-1)/n S bytes; 3(n-1)/n S for 16-bit floating types, whose partials travel as fp32 and
/// are rounded once. Order: chunk r is combined from rank r+1 upwards, around to rank r, and copied
/// from there.
Status ring_allreduce(Transport& transport, const FlatWork& work, Scratch& scratch);

/// The place of a rank in one of the two trees.
struct DoubleTreePlace {
  int parent = -1;            ///< -1: this is the root.
  std::size_t depth = 0;      ///< Edges to the root.
  std::vector<int> children;  ///< At most two.
};

/// The place of `rank` in tree `which` (0 or 1) of `size` ranks. Every tree spans all ranks and is
/// at most ceil(log2 size) deep. The leaves of one are inside the other. Where size is odd, one
/// rank is inside both.
DoubleTreePlace double_tree_place(int which, int rank, int size);

/// Few steps on many ranks, for medium and large tensors.
/// Either half of the tensor is reduced up and broadcast down a tree of its own.
/// In pieces of 128 KiB, K of each half: at most 2 ceil(log2 n) + K steps; a rank sends at most
/// 2 S bytes, all together 2 (n-1) S (3 (n-1) S for 16-bit floating types, whose partials travel as
/// fp32 and are rounded once). Order: a rank's own input, then its children's sums, nearest first;
/// each element is finished at one rank and copied.
/// Source: Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and
/// scan", 2009.
Status double_tree_allreduce(Transport& transport, const FlatWork& work, Scratch& scratch);

/// One order of addition for all sizes; averages of few ranks that are rounded once.
/// Direct reduce-scatter, then allgather: Bruck's up to 32 KiB, around the ring above.
/// 1 + ceil(log2 n) or n steps (the first per slice of 4 MiB of input from all ranks together; one
/// slice is combined while the next one moves). Each rank sends 2(n-1)/n S bytes, for 16-bit types
/// too.
/// Order: ascending ranks, rounded once, at the chunk's owner, and copied from there: the same bits
/// however tensors are fused or cut. Deterministic mode uses it.
Status direct_allreduce(Transport& transport, const FlatWork& work, Scratch& scratch);

// --- allgather: ops/allgather/

/// Few steps, for small tensors.
/// Every rank's chunk, in rank order, in every rank's `out`.
/// ceil(log2 n) steps; each rank sends S - (one chunk) bytes; one more copy of S in memory.
/// Source: Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient algorithms for all-to-all
/// communications in multiport message-passing systems", 1997.
Status bruck_allgather(Transport& transport, const FlatWork& work, Scratch& scratch);

/// Optimal in bytes, for large tensors.
/// Every rank's chunk, in rank order, in every rank's `out`.
/// n-1 steps; each rank sends S - (its right neighbour's chunk) bytes, straight from and to `out`.
/// This rank's chunk is copied from `in` unless it is in its place already.
Status ring_allgather(Transport& transport, const FlatWork& work, Scratch& scratch);

// --- broadcast: ops/broadcast/

/// Few steps, for small tensors.
/// The root's `in` in every other rank's `out`. The root's `out` is not touched.
/// ceil(log2 n) steps; the root sends S ceil(log2 n) bytes, all ranks together S (n-1).
Status binomial_broadcast(Transport& transport, const FlatWork& work, Scratch& scratch);

/// In pieces that follow one another, for large tensors.
/// The root's `in` in every other rank's `out`. The root's `out` is not touched.
/// n-2 + S/256 KiB steps of 256 KiB; every rank but the last of the chain sends S bytes.
Status chain_broadcast(Transport& transport, const FlatWork& work, Scratch& scratch);

// --- reduce_scatter: ops/reduce_scatter/

/// Optimal in bytes, for large tensors.
/// Every rank's `out` receives its chunk of the reduction.
/// n-1 steps for every two slices of at most 512 KiB of a chunk, which overlap. Each rank sends and
/// receives S - (own chunk) bytes; twice that for 16-bit floating types, whose partials travel as
/// fp32. Order: chunk r is combined from rank r+1 upwards, around to rank r.
Status ring_reduce_scatter(Transport& transport, const FlatWork& work, Scratch& scratch);

/// As ring_reduce_scatter, of given chunks: a ReduceChunks.
Status ring_reduce_chunks(Transport& transport, const FlatWork& work, std::span<const Chunk> chunks,
                          Scratch& scratch);

/// One order of addition for all sizes.
/// Every rank's `out` receives its chunk of the reduction.
/// One step per slice (4 MiB of input from all ranks together) of n-1 messages. Each rank sends
/// S - (own chunk) bytes, 16-bit types as they are.
/// Order: ascending ranks, rounded once; the same bits however tensors are fused or cut.
Status direct_reduce_scatter(Transport& transport, const FlatWork& work, Scratch& scratch);

/// As direct_reduce_scatter, of given chunks: a ReduceChunks.
Status direct_reduce_chunks(Transport& transport, const FlatWork& work,
                            std::span<const Chunk> chunks, Scratch& scratch);

/// Reduces the chunks of `work.chunk_bytes`, in place too.
Status reduce_scatter_by(ReduceChunks reduce, Transport& transport, const FlatWork& work,
                         Scratch& scratch);

// --- alltoall: ops/alltoall/

/// Block r of `in` goes to rank r; `out` holds the blocks received, by sender. n ranks.
/// n-1 steps; each rank sends the bytes of its blocks for others. In place costs one copy of `in`.
Status pairwise_alltoall(Transport& transport, const FlatWork& work, Scratch& scratch);

/// Few steps, for small blocks among many ranks.
/// Block r of `in` goes to rank r; `out` holds the blocks received, by sender. n ranks.
/// ceil(log2 n) rounds of two steps, lengths and then blocks. A block to the rank d above travels
/// once for each bit that is set in d. In every round each rank sends about half of its blocks'
/// bytes and n/2 lengths of 8 bytes. In place needs nothing more. Source: as bruck_allgather().
Status bruck_alltoall(Transport& transport, const FlatWork& work, Scratch& scratch);

// --- reduce: ops/reduce/

/// Few steps, for small tensors.
/// The reduction of all ranks' `in` in the root's `out`.
/// At most ceil(log2 n) steps. Every rank but the root sends S bytes once (2S for 16-bit floating
/// types, whose partials travel as fp32 and are rounded once). Order: ranks counted from the root,
/// neighbours first: ((0 1) (2 3)) ((4 5) ...).
Status binomial_reduce(Transport& transport, const FlatWork& work, Scratch& scratch);

/// For large tensors, and one order of addition.
/// Direct reduce-scatter, then the chunks go to the root.
/// Two steps (the first per slice of 4 MiB of input from all ranks together). Every rank but the
/// root sends S bytes, 16-bit types as they are; the root receives 2(n-1)/n S.
/// Order: ascending ranks, rounded once; the same bits however tensors are fused or cut.
Status direct_reduce(Transport& transport, const FlatWork& work, Scratch& scratch);

// --- gather: ops/gather/

/// Every rank's chunk, in rank order, in the root's `out`.
/// One step at every rank; n-1 messages arrive at the root, S - (its own chunk) bytes.
Status linear_gather(Transport& transport, const FlatWork& work, Scratch& scratch);

// --- scatter: ops/scatter/

/// Chunk r of the root's `in` in rank r's `out`.
/// One step at every rank; the root sends n-1 messages, S - (its own chunk) bytes.
Status linear_scatter(Transport& transport, const FlatWork& work, Scratch& scratch);

// --- barrier: ops/barrier/

/// No rank leaves before all have come.
/// ceil(log2 n) steps with one empty message each; n ranks.
/// Source: Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization", 1988.
Status dissemination_barrier(Transport& transport, const FlatWork& work, Scratch& scratch);

}  // namespace ronde
