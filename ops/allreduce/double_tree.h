// Allreduce over two binary trees at once, in pieces: few steps however many ranks, for medium and
// large tensors on many hosts.
#pragma once

#include <cstddef>
#include <vector>

#include "core/ports/transport.h"
#include "ops/flat_work.h"
#include "ops/scratch.h"

namespace ronde {

/// Where a rank stands in one of the two trees.
struct DoubleTreePlace {
  int parent = -1;            ///< -1: this is the root.
  std::size_t depth = 0;      ///< Edges to the root.
  std::vector<int> children;  ///< At most two.
};

/// The place of `rank` in tree `which` (0 or 1) of `size` ranks. Every tree spans all ranks, is at
/// most ceil(log2 size) deep, and has the leaves of the other inside (where size is odd, one rank
/// is inside in both).
DoubleTreePlace double_tree_place(int which, int rank, int size);

/// Either half of the tensor is reduced up and broadcast down a tree of its own; n ranks, S bytes.
/// In pieces of 128 KiB, K of each half: at most 2 ceil(log2 n) + K steps; a rank sends at most
/// 2 S bytes, all together 2 (n-1) S (3 (n-1) S for 16-bit floating types, whose partials travel as
/// fp32 and are rounded once). Order: a rank's own input, then its children's sums, nearest first;
/// each element is finished at one rank and copied.
/// Source: Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and
/// scan", 2009.
Status double_tree_allreduce(Transport& transport, const FlatWork& work, Scratch& scratch);

}  // namespace ronde
