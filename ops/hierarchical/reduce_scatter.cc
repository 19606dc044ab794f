#include <cstring>
#include <vector>

#include "ops/algorithms.h"
#include "ops/hierarchical/levels.h"
#include "ops/partial.h"
#include "ops/transfer.h"

namespace ronde {
namespace {

/// One reduce_scatter on one rank. Leaders keep partial results in the order of hosts; in each,
/// segments; in each, the host's ranks.
class ReduceScatter {
 public:
  ReduceScatter(const Levels& levels, const Work& work)
      : levels_(levels),
        work_(work),
        chunks_(levels, work),
        partial_(work.reduction, levels.kernels),
        total_(total_bytes(work) / partial_.element()) {
    for (std::size_t host = 0; host < levels_.layout.hosts.size(); ++host) {
      host_bytes_.push_back(wide(chunks_.of_host(host)));
    }
    const std::size_t sums = total_ * partial_.width();
    if (leads()) all_ = levels.scratch.block(0, sums + own_bytes());
  }

  Status run(const AbortToken& abort) {
    RONDE_RETURN_IF_ERROR(collect(abort));
    RONDE_RETURN_IF_ERROR(exchange(abort));
    return spread(abort);
  }

 private:
  [[nodiscard]] bool leads() const noexcept { return levels_.layout.local == 0; }
  [[nodiscard]] std::size_t own_bytes() const { return host_bytes_[levels_.layout.host]; }
  /// This host's sums, at the leader.
  [[nodiscard]] std::byte* own() const { return all_ + total_ * partial_.width(); }
  /// Bytes of as many elements as partials.
  [[nodiscard]] std::size_t wide(std::size_t bytes) const {
    return bytes / partial_.element() * partial_.width();
  }

  /// Calls visit(in, bytes) for all chunks, as leaders keep them; `in` may be null.
  template <typename Visit>
  void each_chunk(Visit visit) const {
    for (const auto& ranks : levels_.layout.hosts) {
      for (std::size_t i = 0; i < work_.segments.size(); ++i) {
        const std::byte* const in = work_.segments[i].in;
        for (const int rank : ranks) {
          visit(in == nullptr ? nullptr : in + chunks_.begin(i, rank), chunks_.bytes(i, rank));
        }
      }
    }
  }

  /// The input as it lies, chunk by chunk.
  [[nodiscard]] std::vector<Segment> chunks_in_place() const {
    std::vector<Segment> segments;
    std::byte* to = all_;
    each_chunk([&](const std::byte* in, std::size_t bytes) {
      segments.push_back({in, to, bytes});
      if (to != nullptr) to += bytes;
    });
    return segments;
  }

  /// The input as partials in memory of our own.
  [[nodiscard]] std::vector<Segment> staged_chunks() const {
    std::byte* const staged = levels_.scratch.block(1, total_ * partial_.width());
    std::byte* to = staged;
    each_chunk([&](const std::byte* in, std::size_t bytes) {
      if (in == nullptr) {
        std::memset(to, 0, wide(bytes));
      } else {
        partial_.load(in, to, bytes / partial_.element());
      }
      to += wide(bytes);
    });
    return {{staged, all_, total_ * partial_.width()}};
  }

  Status collect(const AbortToken& abort) {
    const Phase phase(work_.phases, "reduce inside hosts");
    const std::vector<Segment> segments =
        partial_.raw_is_partial() ? chunks_in_place() : staged_chunks();
    Work inside;
    inside.kind = Collective::kReduce;
    inside.reduction = partial_.sums();
    inside.segments = segments;
    return run_inside(levels_.inner, inside, abort);
  }

  Status exchange(const AbortToken& abort) {
    if (!leads()) return {};
    PhaseObserver* const phases = beside(work_.phases);
    const Phase phase(phases, "between hosts");
    SubTransport leaders = leaders_of(levels_);
    const bool wide = partial_.width() != partial_.element();
    const FlatWork flat{.kernels = levels_.kernels,
                        .abort = abort,
                        .reduction = wide ? partial_.sums() : partial_.last_sums(),
                        .in = all_,
                        .out = own(),
                        .bytes = total_ * partial_.width(),
                        .chunk_bytes = host_bytes_,
                        .phases = phases};
    RONDE_RETURN_IF_ERROR(run_between(levels_, Collective::kReduceScatter, leaders, flat));
    if (wide) {
      partial_.finish(own(), all_, own_bytes() / partial_.width());
    } else {
      copy_bytes(all_, own(), own_bytes());
    }
    return {};
  }

  Status spread(const AbortToken& abort) {
    const Phase phase(work_.phases, "scatter inside hosts");
    const std::size_t host = levels_.layout.host;
    std::vector<Segment> segments;
    const std::vector<std::size_t> chunks = chunks_.of_this_host();
    const std::byte* from = all_;
    for (std::size_t i = 0; i < work_.segments.size(); ++i) {
      const std::size_t bytes = chunks_.of_host(host, i);
      segments.push_back({from, work_.segments[i].out, bytes});
      if (from != nullptr) from += bytes;
    }
    Work inside;
    inside.kind = Collective::kScatter;
    inside.reduction.dtype = work_.reduction.dtype;
    inside.segments = segments;
    inside.chunk_bytes = chunks;
    return run_inside(levels_.inner, inside, abort);
  }

  const Levels& levels_;
  const Work& work_;
  const HostChunks chunks_;
  const PartialReduction partial_;
  const std::size_t total_;              // elements
  std::vector<std::size_t> host_bytes_;  // of partials
  std::byte* all_ = nullptr;             // the leader's: sums of this host, then its own results
};

}  // namespace

Status hierarchical_reduce_scatter(const Levels& levels, const Work& work,
                                   const AbortToken& abort) {
  if (total_bytes(work) == 0) return {};
  return ReduceScatter(levels, work).run(abort);
}

}  // namespace ronde
