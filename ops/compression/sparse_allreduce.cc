#include "ops/compression/sparse_allreduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/base/stopwatch.h"
#include "ops/compression/interleave.h"
#include "ops/compression/momentum.h"
#include "ops/compression/select.h"
#include "ops/compression/sparse_frame.h"
#include "ops/transfer.h"

namespace ronde {
namespace {

using Bytes = std::vector<std::byte>;

/// One piece on its way.
struct Staged {
  const CompressedPiece& piece;
  const CompressedTensor& tensor;
  Interleave deal;
  std::span<float> values;    // what is given, then what is left of it
  std::span<float> velocity;  // empty without momentum correction
  double ratio = 1.0;
  SparseVector mine;  // chosen of what this rank owns, by their places among those
};

/// Sums of what one owner owns of one piece.
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

  /// What was added to, in order; drawn where all was.
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

std::uint64_t draw_key(const Staged& staged, std::size_t owner) {
  return (staged.tensor.common_key ^ (staged.piece.begin * 0x9e3779b97f4a7c15ULL)) + owner;
}

/// Takes the next frame of a rank's; an error names the rank.
Status take_frame(std::size_t rank, std::span<const std::byte>& frames, std::size_t owned,
                  SparseVector& vector) {
  const Status status = decode_sparse(frames, owned, vector);
  if (status.ok()) return {};
  return {status.code(), fmt::format("from rank {}: {}", rank, status.message())};
}

class SparseReduce {
 public:
  SparseReduce(Transport& transport, const CompressedAllreduce& work, Scratch& scratch)
      : transport_(transport),
        work_(work),
        spec_(work.compression.scheme().spec),
        scratch_(scratch),
        ranks_(static_cast<std::size_t>(transport.size())),
        me_(static_cast<std::size_t>(transport.rank())),
        sent_(ranks_),
        received_(ranks_) {}

  Status run() {
    stage();
    for (Staged& staged : staged_) choose(staged);
    RONDE_RETURN_IF_ERROR(swap([&](std::size_t to) -> const Bytes& { return sent_[to]; }, me_));
    RONDE_RETURN_IF_ERROR(add_up());
    RONDE_RETURN_IF_ERROR(swap([&](std::size_t) -> const Bytes& { return sent_[me_]; }, ranks_));
    received_[me_] = std::move(sent_[me_]);
    return deliver();
  }

 private:
  void stage();
  void load(Staged& staged);
  void choose(Staged& staged);
  void choose_top(Staged& staged, std::vector<SparseVector>& by_owner);
  void draw(Staged& staged, std::vector<SparseVector>& by_owner);
  void take(Staged& staged, std::size_t index);
  template <class Outgoing>
  Status swap(const Outgoing& outgoing, std::size_t owner);
  Status add_up();
  void pass_on(Staged& staged, SparseVector sums);
  Status deliver();
  Status deliver(const Staged& staged, std::vector<std::span<const std::byte>>& frames);
  void write(const Staged& staged, std::size_t owner, const SparseVector& vector);
  [[nodiscard]] std::size_t longest(std::size_t owner) const;

  Transport& transport_;
  const CompressedAllreduce& work_;
  const CompressionSpec& spec_;
  Scratch& scratch_;
  const std::size_t ranks_;
  const std::size_t me_;
  std::vector<Staged> staged_;
  std::vector<Bytes> sent_, received_;  // by rank
  std::byte* wide_ = nullptr;           // a piece on its way to or from another type
};

void SparseReduce::stage() {
  const std::size_t all = count_elements(work_.pieces);
  const bool keeps_momentum = work_.compression.kept_floats() > 1;
  float* values = work_.left != nullptr
                      ? work_.left
                      : reinterpret_cast<float*>(scratch_.block(1, all * sizeof(float)));
  std::size_t most = 0;
  for (const CompressedPiece& piece : work_.pieces) {
    most = std::max(most, piece.count);
    if (piece.count == 0) continue;
    const CompressedTensor& tensor = work_.compression.tensors()[piece.tensor];
    staged_.push_back({.piece = piece,
                       .tensor = tensor,
                       .deal = {piece.count, ranks_, tensor.turn},
                       .values = {values, piece.count},
                       .velocity = {},
                       .mine = {}});
    if (keeps_momentum && tensor.momentum) staged_.back().velocity = {values + all, piece.count};
    values += piece.count;
  }
  wide_ = scratch_.block(2, most * sizeof(double));
}

/// Brings what a rank has to give to its place: gradient, momentum and residual.
void SparseReduce::load(Staged& staged) {
  const CompressedPiece& piece = staged.piece;
  load_piece(work_, piece, 0, staged.values, wide_);
  if (spec_.clip > 0) clip_locally(spec_.clip, ranks_, staged.values);
  if (!staged.velocity.empty()) {
    std::fill(staged.velocity.begin(), staged.velocity.end(), 0.0F);
    staged.tensor.momentum->add_to(staged.velocity, piece.begin);
    correct_momentum(spec_.momentum, spec_.nesterov, staged.velocity, staged.values);
  }
  if (staged.tensor.residual) staged.tensor.residual->add_to(staged.values, piece.begin);
}

void SparseReduce::choose(Staged& staged) {
  load(staged);
  const bool keeps = staged.tensor.residual != nullptr || !spec_.error_feedback;
  staged.ratio = keeps ? ratio_at(spec_, staged.tensor.step) : 1.0;
  std::vector<SparseVector> by_owner(ranks_);
  if (staged.piece.in != nullptr) {
    if (spec_.kind == CodecKind::kRandomk && keeps) {
      draw(staged, by_owner);
    } else {
      choose_top(staged, by_owner);
    }
  }
  for (std::size_t owner = 0; owner < ranks_; ++owner) {
    if (owner == me_) {
      staged.mine = std::move(by_owner[owner]);
    } else if (staged.deal.owned(owner) > 0) {
      encode_sparse(by_owner[owner], staged.deal.owned(owner), sent_[owner]);
    }
  }
}

void SparseReduce::choose_top(Staged& staged, std::vector<SparseVector>& by_owner) {
  std::vector<std::uint32_t> indices;
  const std::size_t k = chosen_elements(staged.ratio, staged.values.size());
  (spec_.sampled ? select_sampled : select_top)(staged.values, k, indices);
  for (const std::uint32_t index : indices) {
    const Interleave::Place place = staged.deal.place(index);
    by_owner[place.owner].indices.push_back(static_cast<std::uint32_t>(place.local));
    by_owner[place.owner].values.push_back(staged.values[index]);
    take(staged, index);
  }
}

void SparseReduce::draw(Staged& staged, std::vector<SparseVector>& by_owner) {
  for (std::size_t owner = 0; owner < ranks_; ++owner) {
    const std::size_t owned = staged.deal.owned(owner);
    if (owned == 0) continue;
    SparseVector& vector = by_owner[owner];
    vector.drawn = true;
    vector.key = draw_key(staged, owner);
    const std::size_t k = chosen_elements(staged.ratio, owned);
    const Draw draw(owned, k, vector.key);
    for (std::size_t i = 0; i < k; ++i) {
      const std::size_t local = draw.index(i);
      const std::size_t index = staged.deal.index(owner, local);
      const auto scale = spec_.error_feedback ? 1.0F : static_cast<float>(draw.choices(i));
      vector.indices.push_back(static_cast<std::uint32_t>(local));
      vector.values.push_back(staged.values[index] * scale);
      take(staged, index);
    }
  }
}

/// Notes that an element is on its way.
void SparseReduce::take(Staged& staged, std::size_t index) {
  staged.values[index] = 0.0F;
  const bool is_late = staged.ratio < 1;  // where all is sent each time, momentum is never stale
  if (is_late && !staged.velocity.empty() && spec_.masking) staged.velocity[index] = 0.0F;
}

/// Sends outgoing(rank) to every other rank, and receives theirs: frames of what `owner` owns, or
/// where that is no rank, of what each sender does.
template <class Outgoing>
Status SparseReduce::swap(const Outgoing& outgoing, std::size_t owner) {
  std::vector<std::uint64_t> lengths(ranks_), theirs(ranks_);
  Posted announced(transport_, work_.abort), sent(transport_, work_.abort);
  for (std::size_t step = 1; step < ranks_; ++step) {
    const std::size_t peer = (me_ + step) % ranks_;
    lengths[peer] = outgoing(peer).size();
    RONDE_RETURN_IF_ERROR(announced.recv(static_cast<int>(peer),
                                         std::as_writable_bytes(std::span(&theirs[peer], 1))));
    RONDE_RETURN_IF_ERROR(
        sent.send(static_cast<int>(peer), std::as_bytes(std::span(&lengths[peer], 1))));
    if (!outgoing(peer).empty()) {
      RONDE_RETURN_IF_ERROR(sent.send(static_cast<int>(peer), outgoing(peer)));
    }
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
    if (peer == me_ || theirs[peer] == 0) continue;
    RONDE_RETURN_IF_ERROR(sent.recv(static_cast<int>(peer), received_[peer]));
  }
  return sent.wait();
}

/// No frames of all that a rank owns are longer.
std::size_t SparseReduce::longest(std::size_t owner) const {
  constexpr std::size_t kHeader = 16, kElement = 9;
  std::size_t bytes = 0;
  for (const Staged& staged : staged_) bytes += kHeader + kElement * staged.deal.owned(owner);
  return bytes;
}

Status SparseReduce::add_up() {
  const Stopwatch decoding(&work_.compression.facts().decompress_ns);
  std::vector<std::span<const std::byte>> frames(received_.begin(), received_.end());
  SparseVector vector;
  for (Staged& staged : staged_) {
    const std::size_t owned = staged.deal.owned(me_);
    if (owned == 0) continue;
    Sums sums(owned);
    sums.add(staged.mine);
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      if (rank == me_) continue;
      RONDE_RETURN_IF_ERROR(take_frame(rank, frames[rank], owned, vector));
      sums.add(vector);
    }
    pass_on(staged, sums.vector());
  }
  return {};
}

/// Chooses among the sums of one piece, and adds them to what is sent to all.
void SparseReduce::pass_on(Staged& staged, SparseVector sums) {
  const std::size_t owned = staged.deal.owned(me_);
  const bool keeps = staged.tensor.residual != nullptr;
  if (spec_.kind == CodecKind::kTopk && (keeps || !spec_.error_feedback)) {
    const auto most = chosen_elements(std::min(1.0, 2 * staged.ratio), owned);
    keep_top(most, sums.indices, sums.values, [&](std::uint32_t local, float value) {
      staged.values[staged.deal.index(me_, local)] += value;
    });
  }
  encode_sparse(sums, owned, sent_[me_]);
}

Status SparseReduce::deliver() {
  const Stopwatch decoding(&work_.compression.facts().decompress_ns);
  std::vector<std::span<const std::byte>> frames(received_.begin(), received_.end());
  for (const Staged& staged : staged_) {
    RONDE_RETURN_IF_ERROR(deliver(staged, frames));
    work_.compression.leave(staged.piece.tensor, staged.piece.begin, staged.values);
    work_.compression.leave_momentum(staged.piece.tensor, staged.piece.begin, staged.velocity);
  }
  return {};
}

Status SparseReduce::deliver(const Staged& staged,
                             std::vector<std::span<const std::byte>>& frames) {
  const CompressedPiece& piece = staged.piece;
  if (piece.out != nullptr) std::memset(piece.out, 0, piece.count * size_of(work_.out_dtype));
  SparseVector vector;
  for (std::size_t owner = 0; owner < ranks_; ++owner) {
    const std::size_t owned = staged.deal.owned(owner);
    if (owned == 0) continue;
    RONDE_RETURN_IF_ERROR(take_frame(owner, frames[owner], owned, vector));
    if (piece.out != nullptr) write(staged, owner, vector);
  }
  return {};
}

/// Writes an owner's sums to their places in the output.
void SparseReduce::write(const Staged& staged, std::size_t owner, const SparseVector& vector) {
  const std::size_t size = size_of(work_.out_dtype);
  const auto* from = reinterpret_cast<const std::byte*>(vector.values.data());
  if (work_.out_dtype != DType::kFloat32) {
    work_.kernels.cast(DType::kFloat32, vector.values.data(), work_.out_dtype, wide_,
                       vector.values.size());
    from = wide_;
  }
  for (std::size_t i = 0; i < vector.indices.size(); ++i) {
    const std::size_t index = staged.deal.index(owner, vector.indices[i]);
    std::memcpy(staged.piece.out + index * size, from + i * size, size);
  }
}

}  // namespace

double ratio_at(const CompressionSpec& spec, std::uint64_t step) noexcept {
  if (step >= spec.warmup) return spec.ratio;
  double share = 1;
  for (std::uint64_t shrunk = 16 * step; shrunk >= spec.warmup; shrunk /= 2) share /= 4;
  return std::max(spec.ratio, share);
}

std::size_t chosen_elements(double ratio, std::size_t count) noexcept {
  const double exact = std::ceil(ratio * static_cast<double>(count) - 1e-9);
  return std::clamp<std::size_t>(static_cast<std::size_t>(exact), std::min<std::size_t>(1, count),
                                 count);
}

Status sparse_allreduce(Transport& transport, const CompressedAllreduce& work, Scratch& scratch) {
  return SparseReduce(transport, work, scratch).run();
}

}  // namespace ronde
