// Collectives that only move values: broadcast, allgather, gather, scatter, alltoall, barrier.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>

#include "backends/shm/collectives/collectives.h"
#include "backends/shm/collectives/direct.h"

namespace ronde::shm {
namespace {

template <typename Byte>
Byte* address(Byte* base, Extent extent, std::size_t offset, bool mine) {
  if (base == nullptr || extent == Extent::kNone) return nullptr;
  if (extent == Extent::kWhole) return base + offset;
  return mine ? base : nullptr;
}

void restart(Scratch& scratch) {
  scratch.cursors.clear();
  for (const auto& pieces : scratch.chunks) scratch.cursors.emplace_back(pieces);
}

constexpr std::size_t kSmallestSlice = std::size_t{64} << 10;

/// Moves this rank's chunk to its place in the output if it lies elsewhere in the output's range.
/// Other chunks would overwrite it before it is staged.
void settle_own_chunk(const Work& work, std::vector<Segment>& own) {
  for (std::size_t s = 0; s < own.size(); ++s) {
    Segment& piece = own[s];
    const std::byte* out = work.segments[s].out;
    if (piece.in == nullptr || piece.out == nullptr || piece.in == piece.out) continue;
    if (piece.in >= out + work.segments[s].bytes || piece.in + piece.bytes <= out) continue;
    std::memmove(piece.out, piece.in, piece.bytes);
    piece.in = piece.out;
  }
}

/// Copies this rank's own chunk from input to output, which may overlap.
void move_own_chunk(const std::vector<Segment>& own) {
  for (const Segment& piece : own) {
    if (piece.bytes == 0 || piece.out == nullptr) continue;
    if (piece.in == nullptr) {
      std::memset(piece.out, 0, piece.bytes);
    } else if (piece.in != piece.out) {
      std::memmove(piece.out, piece.in, piece.bytes);
    }
  }
}

/// Bytes of a slice if one rank writes and others read: small enough that they work at the same
/// time.
std::size_t pipelined(const Context& with, std::size_t bytes) {
  return std::clamp(bytes / 8, std::min(kSmallestSlice, with.steps.slot_bytes()),
                    with.steps.slot_bytes());
}

/// Copies each input to its own output, where it has another.
void write_through(std::span<const Segment> segments, const Copier& copier) {
  for (const Segment& piece : segments) {
    if (piece.out != nullptr && piece.out != piece.in && piece.bytes > 0) {
      copier.write(piece.in, piece.out, piece.bytes);
    }
  }
}

/// The bytes that an alltoall sends to and receives from each rank.
class Exchange {
 public:
  Exchange(const Context& with, const Work& work)
      : with_(with),
        ranks_(static_cast<std::size_t>(with.steps.ranks())),
        me_(static_cast<std::size_t>(with.steps.rank())),
        segment_(work.segments.front()),
        slice_(with.steps.slot_bytes() / ranks_ / kAlign * kAlign),
        first_(std::min(slice_, kSmallestSlice)),
        copier_(streams(with, sum(work.recv_bytes))),
        sends_(offsets(work.send_bytes)),
        receives_(offsets(work.recv_bytes)) {
    set_aside_input();
  }

  Status run() {
    std::uint64_t largest = 0;
    RONDE_RETURN_IF_ERROR(slices(0, 1, [&](Step step) { largest = largest_of_all(step); }));
    RONDE_RETURN_IF_ERROR(move_rest(largest));
    move_own();  // last: the others' writes are fetched while they are in their caches
    return {};
  }

 private:
  /// Moves the bytes after the first slice.
  Status move_rest(std::uint64_t largest) {
    if (largest <= first_) return {};
    if (goes_direct(with_, ranks_ * largest, ranks_)) {
      RONDE_ASSIGN_OR_RETURN(const bool done, direct_alltoall(with_, rest(largest), copier_));
      if (done) return {};
    }
    return slices(1, (largest + slice_ - 1) / slice_, [](Step) {});
  }

  static std::size_t sum(std::span<const std::size_t> sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
  }

  static std::vector<std::size_t> offsets(std::span<const std::size_t> sizes) {
    std::vector<std::size_t> at{0};
    for (const std::size_t bytes : sizes) at.push_back(at.back() + bytes);
    return at;
  }

  /// The offset of slice `k` in the bytes that one rank sends to another. The first slice tells all
  /// ranks the sizes and carries small messages. Later ones carry the rest.
  [[nodiscard]] std::size_t start(std::size_t k) const { return k == 0 ? 0 : (k - 1) * slice_; }

  /// Bytes of slice `k` between two offsets.
  [[nodiscard]] std::size_t size(const std::vector<std::size_t>& at, std::size_t r,
                                 std::size_t k) const {
    const std::size_t all = at[r + 1] - at[r];
    if ((all <= first_) != (k == 0)) return 0;
    return std::min(slice_, all - std::min(all, start(k)));
  }

  /// Moves the bytes after the first slice. In place, received bytes would arrive where others
  /// still read: another copy before pays only for the kernel's copies.
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
  Status slices(std::size_t first, std::size_t count, Also also) {
    const auto write = [&](std::size_t k, std::byte* slot) {
      send(first + k, slot);
      return Status();
    };
    const auto read = [&](std::size_t k, Step step) {
      receive(first + k, step);
      also(step);
    };
    return stream(with_, count, kEverybody, write, read);
  }

  void send(std::size_t k, std::byte* slot) {
    if (k == 0) with_.steps.set_note(largest_send());
    for (std::size_t r = 0; r < ranks_; ++r) {
      const std::size_t bytes = size(sends_, r, k);
      if (r == me_ || bytes == 0) continue;
      const std::byte* from = segment_.in == nullptr ? nullptr : segment_.in + sends_[r] + start(k);
      write_part(with_, r, slot + r * slice_, bytes,
                 [&](std::size_t size, std::byte* to, Checksum* sum) {
                   copier_.fill(to, {.in = from, .out = nullptr, .bytes = size}, sum);
                   if (from != nullptr) from += size;
                 });
    }
  }

  void receive(std::size_t k, Step step) {
    for (std::size_t r = 0; r < ranks_; ++r) {
      const std::size_t bytes = size(receives_, r, k);
      if (r == me_ || bytes == 0 || segment_.out == nullptr) continue;
      const int sender = static_cast<int>(r);
      std::byte* to = segment_.out + receives_[r] + start(k);
      read_part(with_, {sender, step, me_}, with_.steps.slot(sender, step) + me_ * slice_, bytes,
                {0, receives_[r] + start(k)},
                [&](const std::byte* from, std::size_t size, Checksum* sum) {
                  copier_.write(from, to, size, sum);
                  to += size;
                });
    }
  }

  void move_own() {
    if (segment_.out == nullptr) return;
    const std::byte* in = segment_.in == nullptr ? nullptr : segment_.in + sends_[me_];
    const std::size_t bytes = receives_[me_ + 1] - receives_[me_];
    move_own_chunk({{.in = in, .out = segment_.out + receives_[me_], .bytes = bytes}});
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

void split(const Work& work, int me, Extent in, Extent out, Scratch& scratch) {
  const std::size_t ranks = scratch.chunks.size();
  for (auto& pieces : scratch.chunks) pieces.clear();
  for (std::size_t s = 0; s < work.segments.size(); ++s) {
    const Segment& segment = work.segments[s];
    std::size_t offset = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      const bool mine = r == static_cast<std::size_t>(me);
      const std::size_t bytes = work.chunk_bytes[s * ranks + r];
      scratch.chunks[r].push_back({.in = address(segment.in, in, offset, mine),
                                   .out = address(segment.out, out, offset, mine),
                                   .bytes = bytes});
      offset += bytes;
    }
  }
  restart(scratch);
}

std::size_t longest_chunk(const Scratch& scratch) noexcept {
  std::size_t longest = 0;
  for (const auto& pieces : scratch.chunks) {
    std::size_t bytes = 0;
    for (const Segment& piece : pieces) bytes += piece.bytes;
    longest = std::max(longest, bytes);
  }
  return longest;
}

Status broadcast(const Context& with, const Work& work) {
  const Phase phase(with.phases, "broadcast");
  const bool root = with.steps.rank() == work.root;
  const Slices slices = cut(total_bytes(work), pipelined(with, total_bytes(work)));
  const Copier copier(streams(with, total_bytes(work)));
  if (goes_direct(with, total_bytes(work), work.segments.size())) {
    RONDE_ASSIGN_OR_RETURN(const bool done, direct_broadcast(with, work, copier));
    if (done && root) write_through(work.segments, copier);
    if (done) return {};
  }
  Cursor cursor(work.segments);
  const auto write = [&](std::size_t, std::byte* slot) {
    if (!root) return Status();
    write_part(with, 0, slot, slices.size, [&](std::size_t bytes, std::byte* to, Checksum* sum) {
      copier.copy_through(cursor, bytes, to, sum);
    });
    return Status();
  };
  const auto read = [&](std::size_t, Step step) {
    if (root) return;
    read_part(with, {work.root, step, 0}, with.steps.slot(work.root, step), slices.size,
              place_of(cursor), [&](const std::byte* from, std::size_t bytes, Checksum* sum) {
                copier.copy_out(from, bytes, cursor, sum);
              });
  };
  return stream(with, slices.count, root ? kNobody : work.root, write, read);
}

Status gather_chunks(const Context& with, const Work& work) {
  const Phase phase(with.phases, "gather");
  const auto me = static_cast<std::size_t>(with.steps.rank());
  const bool reads = !traits_of(work.kind).output.root_only || with.steps.rank() == work.root;
  split(work, with.steps.rank(), Extent::kChunk, reads ? Extent::kWhole : Extent::kNone,
        with.scratch);
  if (reads) settle_own_chunk(work, with.scratch.chunks[me]);
  const Slices slices = cut(longest_chunk(with.scratch), with.steps.slot_bytes());
  const Copier copier(streams(with, total_bytes(work)));
  if (goes_direct(with, total_bytes(work), work.segments.size())) {
    RONDE_ASSIGN_OR_RETURN(const bool done, direct_gather(with, work, copier, reads));
    if (done && reads) write_through(with.scratch.chunks[me], copier);
    if (done) return {};
  }
  const auto write = [&](std::size_t, std::byte* slot) {
    write_part(with, 0, slot, slices.size, [&](std::size_t bytes, std::byte* to, Checksum* sum) {
      copier.copy_through(with.scratch.cursors[me], bytes, to, sum);
    });
    return Status();
  };
  const auto read = [&](std::size_t, Step step) {
    if (!reads) return;
    for (std::size_t r = 0; r < with.scratch.cursors.size(); ++r) {
      if (r == me) continue;
      const int from = static_cast<int>(r);
      Cursor& cursor = with.scratch.cursors[r];
      read_part(with, {from, step, 0}, with.steps.slot(from, step), slices.size, place_of(cursor),
                [&](const std::byte* at, std::size_t bytes, Checksum* sum) {
                  copier.copy_out(at, bytes, cursor, sum);
                });
    }
  };
  return stream(with, slices.count, reads ? kEverybody : kNobody, write, read);
}

Status scatter(const Context& with, const Work& work) {
  const Phase phase(with.phases, "scatter");
  const auto me = static_cast<std::size_t>(with.steps.rank());
  const auto ranks = static_cast<std::size_t>(with.steps.ranks());
  const bool root = with.steps.rank() == work.root;
  split(work, with.steps.rank(), root ? Extent::kWhole : Extent::kNone, Extent::kChunk,
        with.scratch);
  const Slices slices = cut(longest_chunk(with.scratch), with.steps.slot_bytes() / ranks);
  const Copier copier(streams(with, total_bytes(work)));
  const auto write = [&](std::size_t, std::byte* slot) {
    for (std::size_t r = 0; root && r < ranks; ++r) {
      if (r == me) continue;
      write_part(with, r, slot + r * slices.size, slices.size,
                 [&](std::size_t bytes, std::byte* to, Checksum* sum) {
                   copier.copy_in(with.scratch.cursors[r], bytes, to, sum);
                 });
    }
    return Status();
  };
  const auto read = [&](std::size_t, Step step) {
    if (root) return;
    Cursor& cursor = with.scratch.cursors[me];
    read_part(with, {work.root, step, me}, with.steps.slot(work.root, step) + me * slices.size,
              slices.size, place_of(cursor),
              [&](const std::byte* from, std::size_t bytes, Checksum* sum) {
                copier.copy_out(from, bytes, cursor, sum);
              });
  };
  RONDE_RETURN_IF_ERROR(stream(with, slices.count, root ? kNobody : work.root, write, read));
  if (root) move_own_chunk(with.scratch.chunks[me]);
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
