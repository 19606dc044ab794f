// How chosen elements of tensors travel: every rank owns interleaved runs of each piece, gets what
// the others chose of them, adds it up, and sends the sums to all. Whoever chose, and wherever the
// values lie, only lists pass through here.
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

/// A run of one tensor's elements, fewer than 2^32 and not none, of which some travel.
struct SparsePiece {
  Interleave deal;
  /// At most so many sums of what this rank owns are passed on, the largest.
  std::size_t most_sums = std::numeric_limits<std::size_t>::max();
};

/// One exchange among all ranks: add() for every piece, in an order that is the same on all ranks,
/// then reduce(), then gather(). Two rounds of messages, each a length (uint64) and the frames of
/// all pieces one after the other. All ranks end with the same bits. Threads: one.
class SparseExchange {
 public:
  /// Elements of a piece by their ascending indices in it.
  using Taker = std::function<void(std::size_t piece, const SparseVector& elements)>;

  /// What is read and written must outlive it.
  SparseExchange(Transport& transport, const AbortToken& abort, CompressionFacts& facts);

  /// Takes a piece and what this rank gives of it.
  void add(const SparsePiece& piece, std::span<const std::uint32_t> indices,
           std::span<const float> values);
  /// As add(), of elements by owner and by their places among what that owns: an entry per rank.
  void add(const SparsePiece& piece, std::vector<SparseVector> by_owner);
  /// Adds up what this rank owns. `kept` gets those sums of each piece that are not passed on.
  /// Blocks. Errors: the transport's; kInvalidArgument naming a rank whose bytes are no frames.
  Status reduce(const Taker& kept);
  /// Brings the sums of all owners to all ranks: `delivered` gets those of each owner of each
  /// piece, in turn. Blocks. Errors: as reduce().
  Status gather(const Taker& delivered);

 private:
  using Bytes = std::vector<std::byte>;
  struct Added {
    SparsePiece piece;
    SparseVector mine;  // of what this rank owns, by their places among those
  };
  template <class Outgoing>
  Status swap(const Outgoing& outgoing, std::size_t owner);
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
