#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "core/ports/phases.h"
#include "ops/algorithms.h"
#include "ops/partial.h"

namespace ronde {

namespace {

constexpr std::size_t kTrees = 2;
constexpr std::size_t kTreePieceBytes = std::size_t{128} << 10;

/// The place above `place` in the first tree, -1 above the root: odd places are leaves, and those
/// with k zero bits at the end stand on level k, between the places that they join.
int place_above(int place, int size) {
  if (place == 0) return -1;
  const int low = place & -place;
  const int above = (place - low) | (2 * low);
  return above < size ? above : place - low;
}

/// The first tree's place of a rank in tree `which`, and back: mirrored, or moved on by one where a
/// mirror would put leaves upon leaves.
int to_place(int which, int rank, int size) {
  if (which == 0) return rank;
  return size % 2 == 0 ? size - 1 - rank : wrap(rank - 1, size);
}

int to_rank(int which, int place, int size) {
  if (which == 0) return place;
  return size % 2 == 0 ? size - 1 - place : (place + 1) % size;
}

/// No place of either tree is deeper: ceil(log2 size).
std::size_t deepest_of(int size) {
  return static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(size - 1)));
}

/// One allreduce of one rank. A message sent in one round is received in the next, in every tree
/// and both ways. So two ranks post their messages in one order, and no rank waits for a message of
/// the same round.
class DoubleTree {
 public:
  DoubleTree(Transport& transport, const FlatWork& work, Scratch& scratch)
      : transport_(transport),
        work_(work),
        partial_(work.reduction, work.kernels),
        sends_(transport, work.abort),
        places_{place_of(0), place_of(1)} {
    const std::size_t count = work.bytes / partial_.element();
    halves_ = {even_chunk(count, kTrees, 0), even_chunk(count, kTrees, 1)};
    piece_ = std::max<std::size_t>(kTreePieceBytes / partial_.width(), 1);
    pieces_ = (halves_[0].count + piece_ - 1) / piece_;
    sums_ = scratch.block(0, count * partial_.width());
    arrivals_ = scratch.block(1, kTrees * kTrees * piece_ * partial_.width());
    sent_up_.resize(kTrees * pieces_);
  }

  Status run() {
    const std::size_t deepest = deepest_of(transport_.size());
    const std::size_t rounds = pieces_ + 2 * deepest;
    PhaseSteps steps(work_.phases, "round", rounds);
    for (std::size_t round = 0; round < rounds; ++round) {
      steps.next();
      for (std::size_t t = 0; t < kTrees; ++t) {
        const std::size_t depth = places_[t].depth;
        going_up_[t] = piece_at(t, round, deepest - depth);
        going_down_[t] = piece_at(t, round, deepest + depth);
      }
      RONDE_RETURN_IF_ERROR(run_round());
    }
    return sends_.wait();
  }

 private:
  /// The elements of one half that a round moves; none if it moves nothing.
  struct Piece {
    std::size_t index = 0;
    Chunk chunk;
    [[nodiscard]] bool any() const noexcept { return chunk.count > 0; }
  };

  struct Arriving {
    std::size_t tree;
    const std::byte* sum;
    TransferId id;
  };

  [[nodiscard]] DoubleTreePlace place_of(int tree) const {
    return double_tree_place(tree, transport_.rank(), transport_.size());
  }

  [[nodiscard]] Piece piece_at(std::size_t tree, std::size_t round, std::size_t later) const {
    if (round < later || round - later >= pieces_) return {};
    const Chunk& half = halves_[tree];
    const std::size_t skipped = std::min(half.count, (round - later) * piece_);
    return {round - later, {half.begin + skipped, std::min(piece_, half.count - skipped)}};
  }

  Status run_round() {
    RONDE_RETURN_IF_ERROR(post_sums());
    std::array<std::optional<TransferId>, kTrees> results;
    for (std::size_t t = 0; t < kTrees; ++t) RONDE_RETURN_IF_ERROR(post_result(t, results[t]));
    for (std::size_t t = 0; t < kTrees; ++t) RONDE_RETURN_IF_ERROR(send_up(t));
    for (std::size_t t = 0; t < kTrees; ++t) RONDE_RETURN_IF_ERROR(send_down(t, results[t]));
    return {};
  }

  Status post_sums() {
    children_sums_.clear();
    for (std::size_t t = 0; t < kTrees; ++t) {
      if (!going_up_[t].any()) continue;
      for (const int child : places_[t].children) {
        std::byte* const sum = arrivals_ + children_sums_.size() * piece_ * partial_.width();
        const std::size_t bytes = going_up_[t].chunk.count * partial_.width();
        RONDE_ASSIGN_OR_RETURN(const TransferId id, transport_.recv(child, {sum, bytes}));
        children_sums_.push_back({t, sum, id});
      }
    }
    return {};
  }

  Status post_result(std::size_t tree, std::optional<TransferId>& posted) {
    const Piece& piece = going_down_[tree];
    if (!piece.any() || places_[tree].parent < 0) return {};
    // In place, what has been sent up is overwritten now.
    RONDE_RETURN_IF_ERROR(transport_.wait(sent_up(tree, piece), work_.abort));
    RONDE_ASSIGN_OR_RETURN(posted, transport_.recv(places_[tree].parent, result_of(piece)));
    return {};
  }

  Status send_up(std::size_t tree) {
    const Piece& piece = going_up_[tree];
    if (!piece.any()) return {};
    std::byte* const sum = sums_ + piece.chunk.begin * partial_.width();
    const std::byte* mine = work_.in + piece.chunk.begin * partial_.element();
    if (!partial_.raw_is_partial()) {
      partial_.load(mine, sum, piece.chunk.count);
      mine = sum;
    }
    for (const Arriving& child : children_sums_) {
      if (child.tree != tree) continue;
      RONDE_RETURN_IF_ERROR(transport_.wait(child.id, work_.abort));
      partial_.merge(mine, child.sum, sum, piece.chunk.count);
      mine = sum;
    }
    if (places_[tree].parent < 0) {
      partial_.finish(mine, result_of(piece).data(), piece.chunk.count);
      return {};
    }
    RONDE_ASSIGN_OR_RETURN(
        sent_up(tree, piece),
        transport_.send(places_[tree].parent, {mine, piece.chunk.count * partial_.width()}));
    return {};
  }

  Status send_down(std::size_t tree, const std::optional<TransferId>& arriving) {
    const Piece& piece = going_down_[tree];
    if (!piece.any()) return {};
    if (arriving) RONDE_RETURN_IF_ERROR(transport_.wait(*arriving, work_.abort));
    for (const int child : places_[tree].children) {
      RONDE_RETURN_IF_ERROR(sends_.send(child, result_of(piece)));
    }
    return {};
  }

  [[nodiscard]] std::span<std::byte> result_of(const Piece& piece) const {
    return {work_.out + piece.chunk.begin * partial_.element(),
            piece.chunk.count * partial_.element()};
  }

  TransferId& sent_up(std::size_t tree, const Piece& piece) {
    return sent_up_[kTrees * piece.index + tree];
  }

  Transport& transport_;
  const FlatWork& work_;
  const PartialReduction partial_;
  Posted sends_;
  const std::array<DoubleTreePlace, kTrees> places_;
  std::array<Chunk, kTrees> halves_{};  // the tree's own
  std::size_t piece_ = 0;               // in elements
  std::size_t pieces_ = 0;
  std::byte* sums_ = nullptr;
  std::byte* arrivals_ = nullptr;
  std::vector<Arriving> children_sums_;  ///< Of this round.
  std::array<Piece, kTrees> going_up_;
  std::array<Piece, kTrees> going_down_;
  std::vector<TransferId> sent_up_;  // by piece and tree
};

}  // namespace

DoubleTreePlace double_tree_place(int which, int rank, int size) {
  const int place = to_place(which, rank, size);
  DoubleTreePlace found;
  for (int at = place_above(place, size); at >= 0; at = place_above(at, size)) {
    if (found.depth++ == 0) found.parent = to_rank(which, at, size);
  }
  const int reach =
      place == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(size))) : place & -place;
  for (int step = reach / 2; step > 0; step /= 2) {
    for (const int below : {place - step, place + step}) {
      if (below > 0 && below < size && place_above(below, size) == place) {
        found.children.push_back(to_rank(which, below, size));
      }
    }
  }
  return found;
}

Status double_tree_allreduce(Transport& transport, const FlatWork& work, Scratch& scratch) {
  return DoubleTree(transport, work, scratch).run();
}

}  // namespace ronde
