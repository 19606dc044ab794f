#include <vector>

#include "ops/algorithms.h"
#include "ops/hierarchical/levels.h"

namespace ronde {
namespace {

/// One allgather on one rank. Leaders keep it in the order of hosts; in each, segments; in each,
/// the host's ranks.
class Allgather {
 public:
  Allgather(const Levels& levels, const Work& work)
      : levels_(levels), work_(work), chunks_(levels, work) {
    std::size_t begin = 0;
    for (std::size_t host = 0; host < levels_.layout.hosts.size(); ++host) {
      begins_.push_back(begin);
      host_bytes_.push_back(chunks_.of_host(host));
      begin += host_bytes_.back();
    }
    if (leads()) all_ = levels.scratch.block(0, begin);
  }

  Status run(const AbortToken& abort) {
    RONDE_RETURN_IF_ERROR(collect(abort));
    RONDE_RETURN_IF_ERROR(exchange(abort));
    return spread(abort);
  }

 private:
  [[nodiscard]] bool leads() const noexcept { return levels_.layout.local == 0; }

  Status collect(const AbortToken& abort) {
    const Phase phase(work_.phases, "gather inside hosts");
    const std::size_t host = levels_.layout.host;
    std::vector<Segment> segments;
    const std::vector<std::size_t> chunks = chunks_.of_this_host();
    std::byte* to = leads() ? all_ + begins_[host] : nullptr;
    for (std::size_t i = 0; i < work_.segments.size(); ++i) {
      const std::size_t bytes = chunks_.of_host(host, i);
      segments.push_back({work_.segments[i].in, to, bytes});
      if (to != nullptr) to += bytes;
    }
    Work gather;
    gather.kind = Collective::kGather;
    gather.reduction.dtype = work_.reduction.dtype;
    gather.segments = segments;
    gather.chunk_bytes = chunks;
    return run_inside(levels_.inner, gather, abort);
  }

  Status exchange(const AbortToken& abort) {
    if (!leads()) return {};
    PhaseObserver* const phases = beside(work_.phases);
    const Phase phase(phases, "between hosts");
    SubTransport leaders = leaders_of(levels_);
    const FlatWork flat{.kernels = levels_.kernels,
                        .abort = abort,
                        .reduction = work_.reduction,
                        .in = all_ + begins_[levels_.layout.host],
                        .out = all_,
                        .bytes = begins_.back() + host_bytes_.back(),
                        .chunk_bytes = host_bytes_,
                        .phases = phases};
    return run_between(levels_, Collective::kAllgather, leaders, flat);
  }

  Status spread(const AbortToken& abort) {
    const Phase phase(work_.phases, "broadcast inside hosts");
    std::vector<Segment> segments;
    const std::byte* from = all_;
    for (const auto& ranks : levels_.layout.hosts) {
      for (std::size_t i = 0; i < work_.segments.size(); ++i) {
        for (const int rank : ranks) {
          segments.push_back({from, place(i, rank), chunks_.bytes(i, rank)});
          if (from != nullptr) from += chunks_.bytes(i, rank);
        }
      }
    }
    Work broadcast;
    broadcast.kind = Collective::kBroadcast;
    broadcast.reduction.dtype = work_.reduction.dtype;
    broadcast.segments = segments;
    return run_inside(levels_.inner, broadcast, abort);
  }

  /// The address of a rank's chunk in this rank's output.
  [[nodiscard]] std::byte* place(std::size_t segment, int rank) const {
    std::byte* const out = work_.segments[segment].out;
    return out == nullptr ? nullptr : out + chunks_.begin(segment, rank);
  }

  const Levels& levels_;
  const Work& work_;
  const HostChunks chunks_;
  std::vector<std::size_t> begins_;  // of each host's block
  std::vector<std::size_t> host_bytes_;
  std::byte* all_ = nullptr;
};

}  // namespace

Status hierarchical_allgather(const Levels& levels, const Work& work, const AbortToken& abort) {
  if (total_bytes(work) == 0) return {};
  return Allgather(levels, work).run(abort);
}

}  // namespace ronde
