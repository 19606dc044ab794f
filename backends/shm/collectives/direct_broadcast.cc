// Broadcast without staging: the others read the root's memory. A root without a copy of its own to
// make writes to theirs meanwhile.
#include <span>
#include <vector>

#include "backends/shm/collectives/direct.h"
#include "backends/shm/memory/layout.h"
#include "backends/shm/memory/write_permission.h"

namespace ronde::shm {
namespace {

/// A rank's announcement for a broadcast: the root's inputs and own outputs; the others' outputs.
std::vector<Segment> ends_of(std::span<const Segment> segments, bool root) {
  std::vector<Segment> ends(segments.begin(), segments.end());
  for (Segment& piece : ends) {
    if (!root) piece.in = piece.out;
    if (piece.out == nullptr) piece.out = const_cast<std::byte*>(piece.in);
  }
  return ends;
}

/// One broadcast. A root without a copy of its own takes an equal share of the others' copies. It
/// writes the last bytes of each.
class SharedBroadcast {
 public:
  SharedBroadcast(const Context& with, const Work& work, const Places& places, const Copier& copier)
      : with_(with),
        work_(work),
        places_(places),
        copier_(copier),
        root_(static_cast<std::size_t>(work.root)),
        ranks_(static_cast<std::size_t>(with.steps.ranks())),
        total_(total_bytes(work)),
        free_(places.of(root_).in_place) {}

  /// The root's work.
  [[nodiscard]] Status push() const {
    for (std::size_t i = 1; i < ranks_; ++i) {
      const std::size_t to = (root_ + i) % ranks_;
      RONDE_RETURN_IF_ERROR(push_to(to));
    }
    return {};
  }

  /// The others'.
  [[nodiscard]] Status pull() const {
    const auto me = static_cast<std::size_t>(with_.steps.rank());
    const Place& from = places_.of(root_);
    Transfer pull(Transfer::Direction::kPull, with_, root_, from.in_mapped ? &copier_ : nullptr);
    Cursor own(work_.segments);
    own.take(own_bytes(me), [&](const Segment& piece) {
      if (piece.out == nullptr) return;
      pull.add(from.segments[own.segment()].in + own.within(), piece.out, piece.bytes);
    });
    return pull.finish();
  }

 private:
  /// The bytes that `rank` reads itself.
  [[nodiscard]] std::size_t own_bytes(std::size_t rank) const {
    if (!free_ || !places_.of(rank).reached()) return total_;
    return (total_ / ranks_ * (ranks_ - 1) + kPage - 1) / kPage * kPage;
  }

  [[nodiscard]] Status push_to(std::size_t to) const {
    const Place& place = places_.of(to);
    Cursor all(work_.segments);
    all.seek(own_bytes(to));
    for (std::size_t done = own_bytes(to); done < total_; done += kBlock) {
      RONDE_RETURN_IF_ERROR(with_.permission.write(static_cast<int>(to), with_.stop,
                                                   [&] { return push_block(place, to, all); }));
    }
    return {};
  }

  Status push_block(const Place& place, std::size_t to, Cursor& all) const {
    Transfer push(Transfer::Direction::kPush, with_, to, place.out_mapped ? &copier_ : nullptr);
    all.take(kBlock, [&](const Segment& piece) {
      std::byte* const target = place.segments[all.segment()].out;
      if (target != nullptr) push.add(piece.in, target + all.within(), piece.bytes);
    });
    return push.finish();
  }

  /// Between two blocks a failure is seen.
  static constexpr std::size_t kBlock = std::size_t{1} << 20;

  const Context& with_;
  const Work& work_;
  const Places& places_;
  const Copier& copier_;
  const std::size_t root_;
  const std::size_t ranks_;
  const std::size_t total_;
  const bool free_;  ///< The root has nothing to copy for itself.
};

}  // namespace

Result<bool> direct_broadcast(const Context& with, const Work& work, const Copier& copier) {
  const bool root = with.steps.rank() == work.root;
  RONDE_ASSIGN_OR_RETURN(const Places places,
                         Places::exchange(with, ends_of(work.segments, root),
                                          favours_kernel(with, total_bytes(work))));
  const Place& source = places.of(static_cast<std::size_t>(work.root));
  if (!source.by_kernel && !source.in_mapped) return false;
  const SharedBroadcast broadcast(with, work, places, copier);
  RONDE_RETURN_IF_ERROR(root ? broadcast.push() : broadcast.pull());
  RONDE_RETURN_IF_ERROR(synchronise(with));
  return true;
}

}  // namespace ronde::shm
