// Exchanges chosen elements of tensors. Each rank owns interleaved runs of each piece: it gets the
// elements that others chose of them, adds them up, and sends the sums to all. It works on lists,
// for tensors in host and in device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "core/base/abort.h"
#include "core/base/status.h"
#include "core/ports/event_sink.h"
#include "core/ports/transport.h"
#include "ops/compression/sparse/frame.h"
#include "ops/compression/sparse/interleave.h"

namespace ronde {

/// A run of one tensor's elements: at least one, fewer than 2^32.
struct SparsePiece {
  Interleave deal;
  /// How many sums of its own elements this rank passes on: the largest.
  std::size_t most_sums = std::numeric_limits<std::size_t>::max();
};

/// One exchange among all ranks: add() for every piece, in an order that is the same on all ranks,
/// then reduce(), then gather(). Two rounds of messages, each a length (uint64) and the frames of
/// all pieces one after the other. All ranks end with the same bits. Threads: one.
class SparseExchange {
 public:
  /// Elements of a piece by their ascending indices in it.
  using Taker = std::function<void(std::size_t piece, const SparseVector& elements)>;

  /// The arguments outlive it.
  SparseExchange(Transport& transport, const AbortToken& abort, CompressionFacts& facts);

  /// Adds a piece and the elements that this rank chose of it.
  void add(const SparsePiece& piece, std::span<const std::uint32_t> indices,
           std::span<const float> values);
  /// As add(), with an entry for each owner: elements by their places among the owner's.
  void add(const SparsePiece& piece, std::vector<SparseVector> by_owner);
  /// Adds up the elements that this rank owns. `kept` gets the sums that are not passed on. Blocks.
  /// Errors: the transport's; kInvalidArgument naming a rank whose bytes are no frames.
  Status reduce(const Taker& kept);
  /// Sends the sums of all owners to all ranks. `delivered` gets those of each owner of each piece.
  /// Blocks. Errors: as reduce().
  Status gather(const Taker& delivered);

 private:
  using Bytes = std::vector<std::byte>;
  struct Added {
    SparsePiece piece;
    SparseVector mine;  // of this rank's elements, by their places among those
  };
  template <class Outgoing>
  Status swap(const Outgoing& outgoing, std::size_t owner);
  template <class Outgoing>
  Status swap_lengths(const Outgoing& outgoing, std::size_t owner);
  SparseVector pass_on(const Added& added, SparseVector sums);
  [[nodiscard]] std::size_t longest(std::size_t owner) const;

  Transport& transport_;
  const AbortToken& abort_;
  CompressionFacts& facts_;
  const std::size_t ranks_;
  const std::size_t me_;
  std::vector<Added> added_;
  std::vector<Bytes> sent_, received_;  // by rank
};

}  // namespace ronde
