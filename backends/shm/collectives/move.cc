// Collectives that only move values: broadcast, allgather, gather, scatter, alltoall, barrier.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>

#include "backends/shm/collectives/chunks.h"
#include "backends/shm/collectives/collectives.h"
#include "backends/shm/collectives/direct.h"

namespace ronde::shm {
namespace {

constexpr std::size_t kSmallestChunk = std::size_t{64} << 10;

/// Puts this rank's part where it belongs in the output, where it lies elsewhere in the output's
/// own range: other parts would overwrite it before it is staged.
void settle_own_part(const Work& work, std::vector<Segment>& own) {
  for (std::size_t s = 0; s < own.size(); ++s) {
    Segment& piece = own[s];
    const std::byte* out = work.segments[s].out;
    if (piece.in == nullptr || piece.out == nullptr || piece.in == piece.out) continue;
    if (piece.in >= out + work.segments[s].bytes || piece.in + piece.bytes <= out) continue;
    std::memmove(piece.out, piece.in, piece.bytes);
    piece.in = piece.out;
  }
}

/// Copies this rank's own part from input to output, which may overlap.
void move_own_part(const std::vector<Segment>& own) {
  for (const Segment& piece : own) {
    if (piece.bytes == 0 || piece.out == nullptr) continue;
    if (piece.in == nullptr) {
      std::memset(piece.out, 0, piece.bytes);
    } else if (piece.in != piece.out) {
      std::memmove(piece.out, piece.in, piece.bytes);
    }
  }
}

/// Bytes of a chunk where one rank writes what others read: small enough that they take part at the
/// same time.
std::size_t pipelined(const Context& with, std::size_t bytes) {
  return std::clamp(bytes / 8, std::min(kSmallestChunk, with.steps.bank_bytes()),
                    with.steps.bank_bytes());
}

/// Copies each input to its own output, where it has another.
void write_through(std::span<const Segment> segments, const Copier& copier) {
  for (const Segment& piece : segments) {
    if (piece.out != nullptr && piece.out != piece.in && piece.bytes > 0) {
      copier.write(piece.in, piece.out, piece.bytes);
    }
  }
}

/// What an alltoall sends to and receives from each rank.
class Exchange {
 public:
  Exchange(const Context& with, const Work& work)
      : with_(with),
        ranks_(static_cast<std::size_t>(with.steps.ranks())),
        me_(static_cast<std::size_t>(with.steps.rank())),
        segment_(work.segments.front()),
        slice_(with.steps.bank_bytes() / ranks_ / kAlign * kAlign),
        first_(std::min(slice_, kSmallestChunk)),
        copier_(streams(with, sum(work.recv_bytes))),
        sends_(offsets(work.send_bytes)),
        receives_(offsets(work.recv_bytes)) {
    set_aside_input();
  }

  Status run() {
    std::uint64_t largest = 0;
    RONDE_RETURN_IF_ERROR(chunks(0, 1, [&](Step step) { largest = largest_of_all(step); }));
    RONDE_RETURN_IF_ERROR(move_rest(largest));
    move_own();  // last: what the others have written is fetched while it is in their caches
    return {};
  }

 private:
  /// What the first chunk has not brought.
  Status move_rest(std::uint64_t largest) {
    if (largest <= first_) return {};
    if (goes_direct(with_, ranks_ * largest, ranks_)) {
      RONDE_ASSIGN_OR_RETURN(const bool done, direct_alltoall(with_, rest(largest), copier_));
      if (done) return {};
    }
    return chunks(1, (largest + slice_ - 1) / slice_, [](Step) {});
  }

  static std::size_t sum(std::span<const std::size_t> sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
  }

  static std::vector<std::size_t> offsets(std::span<const std::size_t> sizes) {
    std::vector<std::size_t> at{0};
    for (const std::size_t bytes : sizes) at.push_back(at.back() + bytes);
    return at;
  }

  /// Where chunk `k` begins in what one rank sends to another. The first one tells all ranks how
  /// much there is, and brings what is small; the rest comes in the ones after it.
  [[nodiscard]] std::size_t start(std::size_t k) const { return k == 0 ? 0 : (k - 1) * slice_; }

  /// Bytes of chunk `k` of what lies between two offsets.
  [[nodiscard]] std::size_t size(const std::vector<std::size_t>& at, std::size_t r,
                                 std::size_t k) const {
    const std::size_t all = at[r + 1] - at[r];
    if ((all <= first_) != (k == 0)) return 0;
    return std::min(slice_, all - std::min(all, start(k)));
  }

  /// What the first chunk has not brought. In place, received bytes would arrive where others still
  /// read: only what the kernel copies is worth another copy before.
  Parcels rest(std::uint64_t largest) {
    if (in_place() && with_.reach.always) set_aside();
    Parcels parcels{.largest = largest, .sent = {}, .received = {}};
    for (std::size_t r = 0; r < ranks_; ++r) {
      parcels.sent.push_back(rest_of(sends_, r));
      if (in_place()) parcels.sent.back().in = nullptr;
      parcels.received.push_back(rest_of(receives_, r));
    }
    return parcels;
  }

  [[nodiscard]] Segment rest_of(const std::vector<std::size_t>& at, std::size_t r) const {
    const std::size_t all = r == me_ ? 0 : at[r + 1] - at[r];
    Segment piece{.bytes = all <= first_ ? 0 : all};
    if (segment_.in != nullptr) piece.in = segment_.in + at[r];
    if (segment_.out != nullptr) piece.out = segment_.out + at[r];
    return piece;
  }

  [[nodiscard]] bool in_place() const {
    return segment_.in == segment_.out && segment_.in != nullptr;
  }

  /// In place, received bytes land on sent ones unless both lie alike.
  void set_aside_input() {
    if (in_place() && sends_ != receives_) set_aside();
  }

  void set_aside() {
    with_.scratch.copy.assign(segment_.in, segment_.in + sends_.back());
    segment_.in = with_.scratch.copy.data();
  }

  [[nodiscard]] std::uint64_t largest_send() const {
    std::size_t largest = 0;
    for (std::size_t r = 0; r < ranks_; ++r) {
      if (r != me_) largest = std::max(largest, sends_[r + 1] - sends_[r]);
    }
    return largest;
  }

  [[nodiscard]] std::uint64_t largest_of_all(Step step) const {
    std::uint64_t largest = 0;
    for (int r = 0; r < with_.steps.ranks(); ++r) {
      largest = std::max(largest, with_.steps.note(r, step));
    }
    return largest;
  }

  template <typename Also>
  Status chunks(std::size_t first, std::size_t count, Also also) {
    const auto write = [&](std::size_t k, std::byte* bank) {
      send(first + k, bank);
      return Status();
    };
    const auto read = [&](std::size_t k, Step step) {
      receive(first + k, step);
      also(step);
    };
    return stream(with_, count, kEverybody, write, read);
  }

  void send(std::size_t k, std::byte* bank) {
    if (k == 0) with_.steps.set_note(largest_send());
    for (std::size_t r = 0; r < ranks_; ++r) {
      const std::size_t bytes = size(sends_, r, k);
      if (r == me_ || bytes == 0) continue;
      if (segment_.in == nullptr) {
        std::memset(bank + r * slice_, 0, bytes);
      } else {
        copier_.stage(segment_.in + sends_[r] + start(k), bank + r * slice_, bytes);
      }
    }
  }

  void receive(std::size_t k, Step step) {
    for (std::size_t r = 0; r < ranks_; ++r) {
      const std::size_t bytes = size(receives_, r, k);
      if (r == me_ || bytes == 0 || segment_.out == nullptr) continue;
      const std::byte* bank = with_.steps.bank(static_cast<int>(r), step);
      copier_.write(bank + me_ * slice_, segment_.out + receives_[r] + start(k), bytes);
    }
  }

  void move_own() {
    if (segment_.out == nullptr) return;
    const std::byte* in = segment_.in == nullptr ? nullptr : segment_.in + sends_[me_];
    const std::size_t bytes = receives_[me_ + 1] - receives_[me_];
    move_own_part({{.in = in, .out = segment_.out + receives_[me_], .bytes = bytes}});
  }

  const Context& with_;
  const std::size_t ranks_;
  const std::size_t me_;
  Segment segment_;
  const std::size_t slice_;
  const std::size_t first_;
  const Copier copier_;
  const std::vector<std::size_t> sends_;
  const std::vector<std::size_t> receives_;
};

}  // namespace

Status broadcast(const Context& with, const Work& work) {
  const Phase phase(with.phases, "broadcast");
  const bool root = with.steps.rank() == work.root;
  const Chunks chunks = cut(total_bytes(work), pipelined(with, total_bytes(work)));
  const Copier copier(streams(with, total_bytes(work)));
  if (goes_direct(with, total_bytes(work), work.segments.size())) {
    RONDE_ASSIGN_OR_RETURN(const bool done, direct_broadcast(with, work, copier));
    if (done && root) write_through(work.segments, copier);
    if (done) return {};
  }
  Cursor cursor(work.segments);
  const auto write = [&](std::size_t, std::byte* bank) {
    if (root) copier.copy_through(cursor, chunks.size, bank);
    return Status();
  };
  const auto read = [&](std::size_t, Step step) {
    if (!root) copier.copy_out(with.steps.bank(work.root, step), chunks.size, cursor);
  };
  return stream(with, chunks.count, root ? kNobody : work.root, write, read);
}

Status gather_parts(const Context& with, const Work& work) {
  const Phase phase(with.phases, "gather");
  const auto me = static_cast<std::size_t>(with.steps.rank());
  const bool reads = !traits_of(work.kind).output.root_only || with.steps.rank() == work.root;
  split(work, with.steps.rank(), Extent::kPart, reads ? Extent::kWhole : Extent::kNone,
        with.scratch);
  if (reads) settle_own_part(work, with.scratch.parts[me]);
  const Chunks chunks = cut(longest_part(with.scratch), with.steps.bank_bytes());
  const Copier copier(streams(with, total_bytes(work)));
  if (goes_direct(with, total_bytes(work), work.segments.size())) {
    RONDE_ASSIGN_OR_RETURN(const bool done, direct_gather(with, work, copier, reads));
    if (done && reads) write_through(with.scratch.parts[me], copier);
    if (done) return {};
  }
  const auto write = [&](std::size_t, std::byte* bank) {
    copier.copy_through(with.scratch.cursors[me], chunks.size, bank);
    return Status();
  };
  const auto read = [&](std::size_t, Step step) {
    if (!reads) return;
    for (std::size_t r = 0; r < with.scratch.cursors.size(); ++r) {
      if (r == me) continue;
      const std::byte* bank = with.steps.bank(static_cast<int>(r), step);
      copier.copy_out(bank, chunks.size, with.scratch.cursors[r]);
    }
  };
  return stream(with, chunks.count, reads ? kEverybody : kNobody, write, read);
}

Status scatter(const Context& with, const Work& work) {
  const Phase phase(with.phases, "scatter");
  const auto me = static_cast<std::size_t>(with.steps.rank());
  const auto ranks = static_cast<std::size_t>(with.steps.ranks());
  const bool root = with.steps.rank() == work.root;
  split(work, with.steps.rank(), root ? Extent::kWhole : Extent::kNone, Extent::kPart,
        with.scratch);
  const Chunks chunks = cut(longest_part(with.scratch), with.steps.bank_bytes() / ranks);
  const Copier copier(streams(with, total_bytes(work)));
  const auto write = [&](std::size_t, std::byte* bank) {
    for (std::size_t r = 0; root && r < ranks; ++r) {
      if (r != me) copier.copy_in(with.scratch.cursors[r], chunks.size, bank + r * chunks.size);
    }
    return Status();
  };
  const auto read = [&](std::size_t, Step step) {
    if (root) return;
    const std::byte* bank = with.steps.bank(work.root, step);
    copier.copy_out(bank + me * chunks.size, chunks.size, with.scratch.cursors[me]);
  };
  RONDE_RETURN_IF_ERROR(stream(with, chunks.count, root ? kNobody : work.root, write, read));
  if (root) move_own_part(with.scratch.parts[me]);
  return {};
}

Status alltoall(const Context& with, const Work& work) {
  const Phase phase(with.phases, "alltoall");
  const Status done = Exchange(with, work).run();
  with.scratch.copy = {};
  return done;
}

Status barrier(const Context& with, const Work& /*work*/) {
  return stream(
      with, 1, kEverybody, [](std::size_t, std::byte*) { return Status(); },
      [](std::size_t, Step) {});
}

}  // namespace ronde::shm
