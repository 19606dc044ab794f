// Allgather and reduce_scatter over several hosts: one rank of each host, its leader, exchanges
// what belongs to all of its ranks.
#include <cstring>
#include <numeric>
#include <vector>

#include "ops/algorithms.h"
#include "ops/hierarchical/levels.h"
#include "ops/partial.h"
#include "ops/transfer.h"

namespace ronde {
namespace {

/// One collective on one rank. Leaders keep chunks in the order of hosts; in each, segments; in
/// each, the host's ranks.
class OverLeaders {
 public:
  /// An element of the tensors, of `element` bytes, takes `width` bytes at leaders.
  OverLeaders(const Levels& levels, Communicator& lossy_or_not, const Work& work,
              std::size_t element, std::size_t width)
      : levels_(levels), between_(lossy_or_not), work_(work), element_(element), width_(width) {
    for (const auto& ranks : levels.layout.hosts) {
      std::size_t bytes = 0;
      for (std::size_t i = 0; i < work.segments.size(); ++i) bytes += bytes_of(i, ranks);
      host_bytes_.push_back(bytes / element * width);
    }
  }

 protected:
  [[nodiscard]] bool leads() const noexcept { return levels_.layout.local == 0; }
  /// Bytes of all hosts together, and of this one, at leaders.
  [[nodiscard]] std::size_t all_bytes() const {
    return std::accumulate(host_bytes_.begin(), host_bytes_.end(), std::size_t{0});
  }
  [[nodiscard]] std::size_t own_bytes() const { return host_bytes_[levels_.layout.host]; }

  /// Calls visit(segment, bytes) for the part of each segment that belongs to this host's ranks.
  template <typename Visit>
  void each_own(Visit visit) const {
    for (std::size_t i = 0; i < work_.segments.size(); ++i) {
      visit(work_.segments[i], bytes_of(i, levels_.layout.hosts[levels_.layout.host]));
    }
  }

  /// Calls visit(segment, begin, bytes) for all chunks, as leaders keep them.
  template <typename Visit>
  void each_chunk(Visit visit) const {
    for (const auto& ranks : levels_.layout.hosts) {
      for (std::size_t i = 0; i < work_.segments.size(); ++i) {
        for (const int rank : ranks) {
          visit(work_.segments[i], begin_of(i, rank), bytes_of(i, rank));
        }
      }
    }
  }

  Status inside(Collective kind, const Reduction& what, std::span<const Segment> segments,
                const AbortToken& abort) const {
    std::vector<std::size_t> chunks;
    for (std::size_t i = 0; i < work_.segments.size(); ++i) {
      for (const int rank : levels_.layout.hosts[levels_.layout.host]) {
        chunks.push_back(bytes_of(i, rank));
      }
    }
    Work work;
    work.kind = kind;
    work.reduction = what;
    work.segments = segments;
    if (traits_of(kind).has_chunks()) work.chunk_bytes = chunks;
    return run_inside(levels_.inner, work, abort);
  }

  Status between(Collective kind, const Reduction& what, const Segment& data,
                 const AbortToken& abort) const {
    PhaseObserver* const phases = beside(work_.phases);
    const Phase phase(phases, "between hosts");
    if (between_.traits().lossy) return between_lossy(kind, what, data, abort);
    std::vector<int> members;
    for (const auto& ranks : levels_.layout.hosts) members.push_back(ranks.front());
    SubTransport leaders(levels_.whole, std::move(members), static_cast<int>(levels_.layout.host));
    const FlatWork flat{.kernels = levels_.kernels,
                        .abort = abort,
                        .reduction = what,
                        .in = data.in,
                        .out = data.out,
                        .bytes = data.bytes,
                        .chunk_bytes = host_bytes_,
                        .phases = phases};
    return run_between(levels_, kind, leaders, flat);
  }

  const Levels& levels_;
  Communicator& between_;
  const Work& work_;
  std::vector<std::size_t> host_bytes_;  // at leaders

 private:
  /// Each chunk is a segment, so that losses find their tensor. It is its host's alone.
  Status between_lossy(Collective kind, const Reduction& what, const Segment& data,
                       const AbortToken& abort) const {
    const std::size_t hosts = levels_.layout.hosts.size();
    std::vector<Segment> segments;
    std::vector<SegmentOrigin> origins;
    std::vector<std::size_t> chunks;
    const std::byte* in = data.in;
    std::byte* out = data.out;
    const auto add = [&](std::size_t host, std::size_t tensor, int rank) {
      const std::size_t bytes = bytes_of(tensor, rank) / element_ * width_;
      const bool own = host == levels_.layout.host;
      const bool whole = kind == Collective::kAllgather;
      segments.push_back({in, whole || own ? out : nullptr, bytes});
      origins.push_back({tensor, begin_of(tensor, rank) / element_});
      chunks.resize(chunks.size() + hosts);
      chunks[chunks.size() - hosts + host] = bytes;
      in += bytes;
      if (whole || own) out += bytes;
    };
    for (std::size_t host = 0; host < hosts; ++host) {
      for (std::size_t i = 0; i < work_.segments.size(); ++i) {
        for (const int rank : levels_.layout.hosts[host]) add(host, i, rank);
      }
    }
    Work work;
    work.kind = kind;
    work.reduction = what;
    work.segments = segments;
    work.chunk_bytes = chunks;
    work.bytes = data.bytes;
    work.origins = origins;
    return between_.run(work, kNoStream, abort);
  }

  /// Where a rank's chunk of a segment begins, in bytes.
  [[nodiscard]] std::size_t begin_of(std::size_t segment, int rank) const {
    std::size_t begin = 0;
    for (int before = 0; before < rank; ++before) begin += bytes_of(segment, before);
    return begin;
  }
  /// Bytes of a segment that belong to a rank, or to some.
  [[nodiscard]] std::size_t bytes_of(std::size_t segment, int rank) const {
    return work_.chunk_bytes[segment * static_cast<std::size_t>(levels_.whole.size()) +
                             static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::size_t bytes_of(std::size_t segment, const std::vector<int>& ranks) const {
    std::size_t sum = 0;
    for (const int rank : ranks) sum += bytes_of(segment, rank);
    return sum;
  }

  const std::size_t element_;
  const std::size_t width_;
};

class Allgather : OverLeaders {
 public:
  Allgather(const Levels& levels, Communicator& between, const Work& work)
      : OverLeaders(levels, between, work, size_of(work.reduction.dtype),
                    size_of(work.reduction.dtype)),
        all_(leads() ? levels.scratch.block(0, all_bytes()) : nullptr),
        own_(leads() ? all_ + begins_of(host_bytes_)[levels.layout.host] : nullptr) {}

  Status run(const AbortToken& abort) {
    RONDE_RETURN_IF_ERROR(collect(abort));
    if (leads()) {
      RONDE_RETURN_IF_ERROR(between(Collective::kAllgather, work_.reduction,
                                    {between_.traits().lossy ? all_ : own_, all_, all_bytes()},
                                    abort));
    }
    return spread(abort);
  }

 private:
  Status collect(const AbortToken& abort) const {
    const Phase phase(work_.phases, "gather inside hosts");
    std::vector<Segment> segments;
    std::byte* to = own_;
    each_own([&](const Segment& segment, std::size_t bytes) {
      segments.push_back({segment.in, to, bytes});
      if (to != nullptr) to += bytes;
    });
    return inside(Collective::kGather, {work_.reduction.dtype, ReduceOp::kSum, {}}, segments,
                  abort);
  }

  Status spread(const AbortToken& abort) const {
    const Phase phase(work_.phases, "broadcast inside hosts");
    std::vector<Segment> segments;
    const std::byte* from = all_;
    each_chunk([&](const Segment& segment, std::size_t begin, std::size_t bytes) {
      segments.push_back({from, segment.out == nullptr ? nullptr : segment.out + begin, bytes});
      if (from != nullptr) from += bytes;
    });
    return inside(Collective::kBroadcast, {work_.reduction.dtype, ReduceOp::kSum, {}}, segments,
                  abort);
  }

  std::byte* const all_;  // the leader's
  std::byte* const own_;  // this host's part of it
};

class ReduceScatter : OverLeaders {
 public:
  /// `factors`: those that a lossy communicator applies, beside what `partial` does.
  ReduceScatter(const Levels& levels, Communicator& between, const Work& work,
                const PartialReduction& partial, const Scaling& factors)
      : OverLeaders(levels, between, work, partial.element(), partial.width()),
        partial_(partial),
        factors_(factors),
        all_(leads() ? levels.scratch.block(0, all_bytes() + own_bytes()) : nullptr) {}

  Status run(const AbortToken& abort) {
    RONDE_RETURN_IF_ERROR(collect(abort));
    if (leads()) RONDE_RETURN_IF_ERROR(exchange(abort));
    return spread(abort);
  }

 private:
  /// The input as it lies, chunk by chunk.
  [[nodiscard]] std::vector<Segment> chunks_in_place() const {
    std::vector<Segment> segments;
    std::byte* to = all_;
    each_chunk([&](const Segment& segment, std::size_t begin, std::size_t bytes) {
      segments.push_back({segment.in == nullptr ? nullptr : segment.in + begin, to, bytes});
      if (to != nullptr) to += bytes;
    });
    return segments;
  }

  /// The input as partials in memory of our own.
  [[nodiscard]] std::vector<Segment> staged_chunks() const {
    std::byte* const staged = levels_.scratch.block(1, all_bytes());
    std::byte* to = staged;
    each_chunk([&](const Segment& segment, std::size_t begin, std::size_t bytes) {
      const std::size_t count = bytes / partial_.element();
      if (segment.in == nullptr) {
        std::memset(to, 0, count * partial_.width());
      } else {
        partial_.load(segment.in + begin, to, count);
      }
      to += count * partial_.width();
    });
    return {{staged, all_, all_bytes()}};
  }

  Status collect(const AbortToken& abort) const {
    const Phase phase(work_.phases, "reduce inside hosts");
    return inside(Collective::kReduce, partial_.sums(),
                  partial_.raw_is_partial() ? chunks_in_place() : staged_chunks(), abort);
  }

  Status exchange(const AbortToken& abort) const {
    const bool wide = partial_.width() != partial_.element();
    std::byte* const own = all_ + all_bytes();
    Reduction sums = wide ? partial_.sums() : partial_.last_sums();
    if (between_.traits().lossy) sums.scaling = factors_;
    RONDE_RETURN_IF_ERROR(
        between(Collective::kReduceScatter, sums, {all_, own, all_bytes()}, abort));
    if (wide) {
      partial_.finish(own, all_, own_bytes() / partial_.width());
    } else {
      copy_bytes(all_, own, own_bytes());
    }
    return {};
  }

  Status spread(const AbortToken& abort) const {
    const Phase phase(work_.phases, "scatter inside hosts");
    std::vector<Segment> segments;
    const std::byte* from = all_;
    each_own([&](const Segment& segment, std::size_t bytes) {
      segments.push_back({from, segment.out, bytes});
      if (from != nullptr) from += bytes;
    });
    return inside(Collective::kScatter, {work_.reduction.dtype, ReduceOp::kSum, {}}, segments,
                  abort);
  }

  const PartialReduction& partial_;
  const Scaling factors_;
  std::byte* const all_;  // the leader's: sums of this host, then its own results
};

}  // namespace

Status hierarchical_allgather(const Levels& levels, Communicator& between, const Work& work,
                              const AbortToken& abort) {
  if (total_bytes(work) == 0) return {};
  return Allgather(levels, between, work).run(abort);
}

Status hierarchical_reduce_scatter(const Levels& levels, Communicator& between, const Work& work,
                                   const AbortToken& abort) {
  if (total_bytes(work) == 0) return {};
  Reduction inside = work.reduction;
  if (between.traits().lossy) inside.scaling = {};
  const PartialReduction partial(inside, levels.kernels);
  return ReduceScatter(levels, between, work, partial, work.reduction.scaling).run(abort);
}

}  // namespace ronde
