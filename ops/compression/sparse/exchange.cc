#include "ops/compression/sparse/exchange.h"

#include <fmt/format.h>

#include <bit>
#include <utility>

#include "core/base/clock.h"
#include "ops/compression/sparse/select.h"
#include "ops/transfer.h"

namespace ronde {
namespace {

/// Sums of one owner's elements of one piece.
class Sums {
 public:
  explicit Sums(std::size_t count) : values_(count), present_((count + 63) / 64) {}

  void add(const SparseVector& vector) {
    if (vector.indices.empty()) return;
    drawn_ = drawn_ && vector.drawn && (vectors_ == 0 || vector.key == key_);
    key_ = vector.key;
    ++vectors_;
    for (std::size_t i = 0; i < vector.indices.size(); ++i) {
      const std::uint32_t index = vector.indices[i];
      values_[index] += vector.values[i];
      present_[index / 64] |= std::uint64_t{1} << index % 64;
    }
  }

  /// Elements that were added to, ascending; drawn if all were drawn.
  [[nodiscard]] SparseVector vector() const {
    SparseVector all;
    all.drawn = drawn_ && vectors_ > 0;
    all.key = key_;
    for (std::size_t word = 0; word < present_.size(); ++word) {
      for (std::uint64_t bits = present_[word]; bits != 0; bits &= bits - 1) {
        const auto index = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
        all.indices.push_back(static_cast<std::uint32_t>(index));
        all.values.push_back(values_[index]);
      }
    }
    return all;
  }

 private:
  std::vector<float> values_;
  std::vector<std::uint64_t> present_;
  std::size_t vectors_ = 0;
  bool drawn_ = true;
  std::uint64_t key_ = 0;
};

/// Takes the next frame of a rank. An error names the rank.
Status take_frame(std::size_t rank, std::span<const std::byte>& frames, std::size_t owned,
                  SparseVector& vector) {
  const Status status = decode_sparse(frames, owned, vector);
  if (status.ok()) return {};
  return {status.code(), fmt::format("from rank {}: {}", rank, status.message())};
}

}  // namespace

SparseExchange::SparseExchange(Transport& transport, const AbortToken& abort,
                               CompressionFacts& facts)
    : transport_(transport),
      abort_(abort),
      facts_(facts),
      ranks_(static_cast<std::size_t>(transport.size())),
      me_(static_cast<std::size_t>(transport.rank())),
      sent_(ranks_),
      received_(ranks_) {}

void SparseExchange::add(const SparsePiece& piece, std::span<const std::uint32_t> indices,
                         std::span<const float> values) {
  std::vector<SparseVector> by_owner(ranks_);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const Interleave::Place place = piece.deal.place(indices[i]);
    by_owner[place.owner].indices.push_back(static_cast<std::uint32_t>(place.local));
    by_owner[place.owner].values.push_back(values[i]);
  }
  add(piece, std::move(by_owner));
}

void SparseExchange::add(const SparsePiece& piece, std::vector<SparseVector> by_owner) {
  for (std::size_t owner = 0; owner < ranks_; ++owner) {
    const std::size_t owned = piece.deal.owned(owner);
    if (owner != me_ && owned > 0) encode_sparse(by_owner[owner], owned, sent_[owner]);
  }
  added_.push_back({piece, std::move(by_owner[me_])});
}

Status SparseExchange::reduce(const Taker& kept) {
  RONDE_RETURN_IF_ERROR(swap([&](std::size_t to) -> const Bytes& { return sent_[to]; }, me_));
  const Stopwatch decoding(&facts_.decompress_ns);
  std::vector<std::span<const std::byte>> frames(received_.begin(), received_.end());
  SparseVector vector;
  for (std::size_t piece = 0; piece < added_.size(); ++piece) {
    const Added& added = added_[piece];
    const std::size_t owned = added.piece.deal.owned(me_);
    if (owned == 0) continue;
    Sums sums(owned);
    sums.add(added.mine);
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      if (rank == me_) continue;
      RONDE_RETURN_IF_ERROR(take_frame(rank, frames[rank], owned, vector));
      sums.add(vector);
    }
    const SparseVector left = pass_on(added, sums.vector());
    if (!left.indices.empty()) kept(piece, left);
  }
  return {};
}

/// Chooses among the sums of one piece and adds them to the message to all. Returns the others.
SparseVector SparseExchange::pass_on(const Added& added, SparseVector sums) {
  SparseVector left;
  const Interleave& deal = added.piece.deal;
  keep_top(added.piece.most_sums, sums.indices, sums.values, [&](std::uint32_t local, float value) {
    left.indices.push_back(static_cast<std::uint32_t>(deal.index(me_, local)));
    left.values.push_back(value);
  });
  encode_sparse(sums, deal.owned(me_), sent_[me_]);
  return left;
}

Status SparseExchange::gather(const Taker& delivered) {
  RONDE_RETURN_IF_ERROR(swap([&](std::size_t) -> const Bytes& { return sent_[me_]; }, ranks_));
  received_[me_] = std::move(sent_[me_]);
  const Stopwatch decoding(&facts_.decompress_ns);
  std::vector<std::span<const std::byte>> frames(received_.begin(), received_.end());
  SparseVector vector;
  for (std::size_t piece = 0; piece < added_.size(); ++piece) {
    const Interleave& deal = added_[piece].piece.deal;
    for (std::size_t owner = 0; owner < ranks_; ++owner) {
      const std::size_t owned = deal.owned(owner);
      if (owned == 0) continue;
      RONDE_RETURN_IF_ERROR(take_frame(owner, frames[owner], owned, vector));
      for (std::uint32_t& index : vector.indices) {
        index = static_cast<std::uint32_t>(deal.index(owner, index));
      }
      delivered(piece, vector);
    }
  }
  return {};
}

/// Sends outgoing(rank) to every other rank and receives theirs: frames of the elements of `owner`,
/// or, if that is no rank, of each sender's own. Frames go out only after all lengths are right: an
/// error before that leaves no frame under way, whose memory would end with this exchange.
template <class Outgoing>
Status SparseExchange::swap(const Outgoing& outgoing, std::size_t owner) {
  RONDE_RETURN_IF_ERROR(swap_lengths(outgoing, owner));
  Posted frames(transport_, abort_);
  for (std::size_t step = 1; step < ranks_; ++step) {
    const std::size_t peer = (me_ + step) % ranks_;
    Bytes& theirs = received_[peer];
    if (!theirs.empty()) RONDE_RETURN_IF_ERROR(frames.recv(static_cast<int>(peer), theirs));
    const Bytes& mine = outgoing(peer);
    if (!mine.empty()) RONDE_RETURN_IF_ERROR(frames.send(static_cast<int>(peer), mine));
  }
  return frames.wait();
}

/// The first half of swap(): makes received_ as long as what the others announce.
template <class Outgoing>
Status SparseExchange::swap_lengths(const Outgoing& outgoing, std::size_t owner) {
  std::vector<std::uint64_t> lengths(ranks_), theirs(ranks_);
  Posted announced(transport_, abort_);
  for (std::size_t step = 1; step < ranks_; ++step) {
    const std::size_t peer = (me_ + step) % ranks_;
    lengths[peer] = outgoing(peer).size();
    RONDE_RETURN_IF_ERROR(announced.recv(static_cast<int>(peer),
                                         std::as_writable_bytes(std::span(&theirs[peer], 1))));
    RONDE_RETURN_IF_ERROR(
        announced.send(static_cast<int>(peer), std::as_bytes(std::span(&lengths[peer], 1))));
  }
  RONDE_RETURN_IF_ERROR(announced.wait());
  for (std::size_t peer = 0; peer < ranks_; ++peer) {
    const std::size_t most = longest(owner == ranks_ ? peer : owner);
    if (theirs[peer] > most) {
      return {Code::kInvalidArgument, fmt::format("rank {} announces {} bytes of sparse elements; "
                                                  "at most {} can be",
                                                  peer, theirs[peer], most)};
    }
    received_[peer].resize(theirs[peer]);
  }
  return {};
}

/// An upper limit of the bytes of frames of an owner's elements.
std::size_t SparseExchange::longest(std::size_t owner) const {
  constexpr std::size_t kHeader = 16, kElement = 9;
  std::size_t bytes = 0;
  for (const Added& added : added_) bytes += kHeader + kElement * added.piece.deal.owned(owner);
  return bytes;
}

}  // namespace ronde
