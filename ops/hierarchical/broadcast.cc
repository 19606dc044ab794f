#include <algorithm>
#include <cstring>
#include <vector>

#include "ops/algorithms.h"
#include "ops/hierarchical/levels.h"
#include "ops/transfer.h"

namespace ronde {
namespace {

/// One broadcast on one rank.
class Broadcast {
 public:
  Broadcast(const Levels& levels, const Work& work)
      : levels_(levels),
        work_(work),
        total_(total_bytes(work)),
        slices_(std::max<std::size_t>(1, (total_ + levels.slice_bytes / 2) / levels.slice_bytes)),
        room_(total_ / slices_ + 1) {
    find_leaders();
    staging_ = leads() ? levels.scratch.block(0, 2 * room_) : nullptr;
  }

  Status run(const AbortToken& abort, const AbortToken& wire_abort) {
    if (slices_ == 1) {
      RONDE_RETURN_IF_ERROR(between(0, abort));
      return inside(0, abort);
    }
    start(0, wire_abort);
    for (std::size_t index = 0; index < slices_; ++index) {
      if (leads()) RONDE_RETURN_IF_ERROR(levels_.wire.wait(abort));
      if (index + 1 < slices_) start(index + 1, wire_abort);
      RONDE_RETURN_IF_ERROR(inside(index, abort));
    }
    return {};
  }

 private:
  void find_leaders() {
    const auto& hosts = levels_.layout.hosts;
    for (std::size_t host = 0; host < hosts.size(); ++host) {
      const auto root = std::find(hosts[host].begin(), hosts[host].end(), work_.root);
      const bool has_root = root != hosts[host].end();
      if (has_root) root_host_ = static_cast<int>(host);
      if (host == levels_.layout.host && has_root) {
        leader_ = static_cast<int>(root - hosts[host].begin());
      }
      leaders_.push_back(has_root ? work_.root : hosts[host].front());
    }
  }

  [[nodiscard]] bool leads() const noexcept { return levels_.layout.local == leader_; }
  [[nodiscard]] bool is_root() const noexcept { return levels_.whole.rank() == work_.root; }
  [[nodiscard]] Chunk slice(std::size_t index) const { return even_chunk(total_, slices_, index); }
  [[nodiscard]] std::byte* staging(std::size_t index) const noexcept {
    return staging_ + index % 2 * room_;
  }

  void start(std::size_t index, const AbortToken& wire_abort) {
    if (leads())
      levels_.wire.start([this, index, &wire_abort] { return between(index, wire_abort); });
  }

  Status between(std::size_t index, const AbortToken& abort) {
    if (!leads()) return {};
    PhaseObserver* const phases = beside(work_.phases);
    const Phase phase(phases, "between hosts");
    std::byte* const memory = staging(index);
    if (is_root()) {
      for (const SlicePiece& piece : pieces_in(work_.segments, slice(index), 1)) {
        std::memcpy(memory + piece.begin, piece.in, piece.count);
      }
    }
    SubTransport leaders(levels_.whole, leaders_, static_cast<int>(levels_.layout.host));
    const FlatWork flat{.kernels = levels_.kernels,
                        .abort = abort,
                        .reduction = work_.reduction,
                        .root = root_host_,
                        .in = memory,
                        .out = memory,
                        .bytes = slice(index).count,
                        .phases = phases};
    return run_between(levels_, Collective::kBroadcast, leaders, flat);
  }

  Status inside(std::size_t index, const AbortToken& abort) {
    const Phase phase(work_.phases, "broadcast inside hosts");
    std::vector<Segment> segments;
    for (const SlicePiece& piece : pieces_in(work_.segments, slice(index), 1)) {
      const std::byte* in = leads() ? staging(index) + piece.begin : nullptr;
      segments.push_back({is_root() ? piece.in : in, piece.out, piece.count});
    }
    Work work;
    work.kind = Collective::kBroadcast;
    work.reduction.dtype = work_.reduction.dtype;
    work.root = leader_;
    work.segments = segments;
    return run_inside(levels_.inner, work, abort);
  }

  const Levels& levels_;
  const Work& work_;
  const std::size_t total_;
  const std::size_t slices_;
  const std::size_t room_;
  std::vector<int> leaders_;  // by host: ranks of the group
  int root_host_ = 0;
  int leader_ = 0;  // on this host: its local rank
  std::byte* staging_ = nullptr;
};

}  // namespace

Status hierarchical_broadcast(const Levels& levels, const Work& work, const AbortToken& abort) {
  if (total_bytes(work) == 0) return {};
  Broadcast broadcast(levels, work);
  return with_wire(levels.wire, abort,
                   [&](const AbortToken& wire_abort) { return broadcast.run(abort, wire_abort); });
}

}  // namespace ronde
