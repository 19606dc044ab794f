#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "ops/compression/compressed_allreduce.h"
#include "ops/compression/registry.h"
#include "ops/compression/sparse/codecs.h"
#include "ops/compression/sparse/select.h"

namespace ronde {
namespace {

/// One piece during the allreduce.
struct Staged {
  const CompressedPiece& piece;
  const CompressedTensor& tensor;
  Interleave deal;
  std::span<float> values;    // first the input, then the residual
  std::span<float> velocity;  // empty without momentum correction
  SparseShare share;
};

std::uint64_t draw_key(const Staged& staged, std::size_t owner) {
  return (staged.tensor.common_key ^ (staged.piece.begin * 0x9e3779b97f4a7c15ULL)) + owner;
}

class SparseReduce {
 public:
  SparseReduce(Transport& transport, const CompressedAllreduce& work, Scratch& scratch)
      : work_(work),
        spec_(work.compression.scheme().spec),
        draws_(codec_row(spec_.kind).draws),
        scratch_(scratch),
        ranks_(static_cast<std::size_t>(transport.size())),
        me_(static_cast<std::size_t>(transport.rank())),
        exchange_(transport, work.abort, work.compression.facts()) {}

  Status run() {
    stage();
    for (Staged& staged : staged_) choose(staged);
    RONDE_RETURN_IF_ERROR(exchange_.reduce(
        [this](std::size_t piece, const SparseVector& sums) { keep(staged_[piece], sums); }));
    clear();
    RONDE_RETURN_IF_ERROR(exchange_.gather([this](std::size_t piece, const SparseVector& sums) {
      write(staged_[piece].piece, sums);
    }));
    leave();
    return {};
  }

 private:
  void stage();
  void load(Staged& staged);
  void choose(Staged& staged);
  void choose_top(Staged& staged);
  void draw(Staged& staged);
  void take(Staged& staged, std::size_t index);
  static void keep(Staged& staged, const SparseVector& sums);
  void clear();
  void write(const CompressedPiece& piece, const SparseVector& sums);
  void leave();

  const CompressedAllreduce& work_;
  const CompressionSpec& spec_;
  const bool draws_;
  Scratch& scratch_;
  const std::size_t ranks_;
  const std::size_t me_;
  SparseExchange exchange_;
  std::vector<Staged> staged_;
  std::byte* wide_ = nullptr;  // a piece between its type and fp32
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
                       .share = share_of(spec_, tensor)});
    if (keeps_momentum && tensor.momentum) staged_.back().velocity = {values + all, piece.count};
    values += piece.count;
  }
  wide_ = scratch_.block(2, most * sizeof(double));
}

/// Adds up a rank's input: gradient, momentum and residual.
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
  if (draws_ && staged.share.keeps) return draw(staged);
  choose_top(staged);
}

void SparseReduce::choose_top(Staged& staged) {
  SparseVector chosen;
  if (staged.piece.in != nullptr) {
    const std::size_t k = chosen_elements(staged.share.ratio, staged.values.size());
    (spec_.sampled ? select_sampled : select_top)(staged.values, k, chosen.indices);
    chosen.values.reserve(chosen.indices.size());
    for (const std::uint32_t index : chosen.indices) {
      chosen.values.push_back(staged.values[index]);
      take(staged, index);
    }
  }
  exchange_.add(piece_of(spec_, staged.share, staged.deal, me_), chosen.indices, chosen.values);
}

void SparseReduce::draw(Staged& staged) {
  std::vector<SparseVector> by_owner(ranks_);
  for (std::size_t owner = 0; owner < ranks_ && staged.piece.in != nullptr; ++owner) {
    const std::size_t owned = staged.deal.owned(owner);
    if (owned == 0) continue;
    SparseVector& vector = by_owner[owner];
    vector.drawn = true;
    vector.key = draw_key(staged, owner);
    const std::size_t k = chosen_elements(staged.share.ratio, owned);
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
  exchange_.add(piece_of(spec_, staged.share, staged.deal, me_), std::move(by_owner));
}

/// Clears an element that is sent.
void SparseReduce::take(Staged& staged, std::size_t index) {
  staged.values[index] = 0.0F;
  const bool is_late = staged.share.ratio < 1;  // if all is sent each time, momentum is never stale
  if (is_late && !staged.velocity.empty() && spec_.masking) staged.velocity[index] = 0.0F;
}

/// Sums that this rank does not pass on join its residual.
void SparseReduce::keep(Staged& staged, const SparseVector& sums) {
  for (std::size_t i = 0; i < sums.indices.size(); ++i) {
    staged.values[sums.indices[i]] += sums.values[i];
  }
}

void SparseReduce::clear() {
  const Stopwatch decoding(&work_.compression.facts().decompress_ns);
  for (const Staged& staged : staged_) {
    const CompressedPiece& piece = staged.piece;
    if (piece.out != nullptr) std::memset(piece.out, 0, piece.count * size_of(work_.out_dtype));
  }
}

/// Writes an owner's sums to their places in the output.
void SparseReduce::write(const CompressedPiece& piece, const SparseVector& sums) {
  if (piece.out == nullptr) return;
  const std::size_t size = size_of(work_.out_dtype);
  const auto* from = reinterpret_cast<const std::byte*>(sums.values.data());
  if (work_.out_dtype != DType::kFloat32) {
    work_.kernels.cast(DType::kFloat32, sums.values.data(), work_.out_dtype, wide_,
                       sums.values.size());
    from = wide_;
  }
  for (std::size_t i = 0; i < sums.indices.size(); ++i) {
    std::memcpy(piece.out + sums.indices[i] * size, from + i * size, size);
  }
}

void SparseReduce::leave() {
  for (const Staged& staged : staged_) {
    work_.compression.leave(staged.piece.tensor, staged.piece.begin, staged.values);
    work_.compression.leave_momentum(staged.piece.tensor, staged.piece.begin, staged.velocity);
  }
}

}  // namespace

Status sparse_allreduce(Transport& transport, const CompressedAllreduce& work, Scratch& scratch) {
  return SparseReduce(transport, work, scratch).run();
}

}  // namespace ronde
