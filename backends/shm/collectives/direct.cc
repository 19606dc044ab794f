#include "backends/shm/collectives/direct.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "backends/shm/collectives/own_chunk.h"

namespace ronde::shm {
namespace {

/// Smaller tensors are not worth the step that tells the addresses.
constexpr std::size_t kDirectBytes = std::size_t{256} << 10;

/// A rank's announcement of its segments, at the start of its slot.
struct Address {
  const std::byte* in;
  std::byte* out;
};
struct Announcement {
  std::uint32_t complete;   ///< Every segment with bytes has an address.
  std::uint32_t by_kernel;  ///< The kernel reaches all of them.
  Address addresses[];
};

void announce(const Context& with, std::span<const Segment> segments, bool by_kernel) {
  std::byte* const slot = with.steps.slot(with.steps.rank(), with.steps.current());
  auto* const told = reinterpret_cast<Announcement*>(slot);
  const auto complete = [](const Segment& s) {
    return s.bytes == 0 || (s.in != nullptr && s.out != nullptr);
  };
  told->complete = std::all_of(segments.begin(), segments.end(), complete) ? 1 : 0;
  told->by_kernel = by_kernel && is_reachable(segments) ? 1 : 0;
  for (std::size_t s = 0; s < segments.size(); ++s) {
    const bool empty = segments[s].bytes == 0;
    told->addresses[s] = empty ? Address{} : Address{segments[s].in, segments[s].out};
  }
}

/// Replaces the peer's addresses by this rank's for the same memory, where all have one. Null ones
/// are of empty segments.
template <typename Byte>
bool map_all(const ArenaView* arena, std::vector<Segment>& segments, Byte* Segment::*address) {
  if (arena == nullptr) return false;
  const auto is_there = [&](const Segment& s) {
    return s.*address == nullptr || arena->at(s.*address) != nullptr;
  };
  if (!std::all_of(segments.begin(), segments.end(), is_there)) return false;
  for (Segment& s : segments) s.*address = arena->at(s.*address);
  return true;
}

Place read_place(const Context& with, std::size_t rank, Step step,
                 std::span<const Segment> segments) {
  const std::byte* const slot = with.steps.slot(static_cast<int>(rank), step);
  const auto* const told = reinterpret_cast<const Announcement*>(slot);
  Place place;
  place.by_kernel = told->by_kernel != 0;
  for (std::size_t s = 0; s < segments.size(); ++s) {
    const Address& address = told->addresses[s];
    place.segments.push_back({address.in, address.out, segments[s].bytes});
    place.in_place = place.in_place && address.in == address.out;
  }
  const ArenaView* arena = with.reach.arenas.empty() ? nullptr : with.reach.arenas[rank].get();
  if (told->complete == 0) return place;
  place.in_mapped = map_all(arena, place.segments, &Segment::in);
  place.out_mapped = map_all(arena, place.segments, &Segment::out);
  return place;
}

/// The announcement of a rank of which only inputs are read.
std::vector<Segment> inputs_of(std::span<const Segment> pieces) {
  std::vector<Segment> inputs(pieces.begin(), pieces.end());
  for (Segment& piece : inputs) piece.out = const_cast<std::byte*>(piece.in);
  return inputs;
}

/// As favours_kernel: staging would copy all twice, and each rank reads from all others at once.
bool favours_kernel_exchange(const Context& with, std::size_t bytes) {
  return with.reach.always || (with.reach.kernel_pays && !streams(with, bytes));
}

/// The start of each segment, which is that of the first rank's chunk.
std::vector<Segment> whole_inputs(const Scratch& scratch, const Work& work) {
  std::vector<Segment> inputs = scratch.chunks.front();
  for (std::size_t s = 0; s < inputs.size(); ++s) {
    inputs[s].out = const_cast<std::byte*>(inputs[s].in);
    inputs[s].bytes = work.segments[s].bytes;
  }
  return inputs;
}

/// The start of this rank's chunk in each segment.
std::vector<std::size_t> chunk_offsets(const Scratch& scratch, std::size_t me) {
  std::vector<std::size_t> offsets(scratch.chunks.front().size(), 0);
  for (std::size_t r = 0; r < me; ++r) {
    for (std::size_t s = 0; s < offsets.size(); ++s) offsets[s] += scratch.chunks[r][s].bytes;
  }
  return offsets;
}

}  // namespace

Status synchronise(const Context& with) {
  RONDE_RETURN_IF_ERROR(with.steps.begin(with.stop));
  note_odd(with, with.watch != nullptr && with.watch->found());
  with.steps.arrive();
  const Step step = with.steps.current() - 1;
  RONDE_RETURN_IF_ERROR(with.steps.wait_all(step, with.stop));
  read_odd(with, step);
  return {};
}

Result<Places> Places::exchange(const Context& with, std::span<const Segment> segments,
                                bool by_kernel) {
  Steps& steps = with.steps;
  RONDE_RETURN_IF_ERROR(steps.begin(with.stop));
  announce(with, segments, by_kernel && with.reach.by_kernel);
  steps.arrive();
  const Step step = steps.current() - 1;
  RONDE_RETURN_IF_ERROR(steps.wait_all(step, with.stop));
  Places all;
  for (int r = 0; r < steps.ranks(); ++r) {
    all.places_.push_back(read_place(with, static_cast<std::size_t>(r), step, segments));
  }
  return all;
}

bool Places::usable() const noexcept {
  return std::all_of(places_.begin(), places_.end(), [](const Place& p) { return p.reached(); });
}

void Places::advance_inputs(std::span<const std::size_t> bytes) noexcept {
  for (Place& place : places_) {
    for (std::size_t s = 0; s < place.segments.size(); ++s) {
      if (place.segments[s].in != nullptr) place.segments[s].in += bytes[s];
    }
  }
}

bool favours_kernel(const Context& with, std::size_t bytes) {
  const bool pays = with.reach.kernel_pays && with.steps.ranks() == 2 && !streams(with, bytes);
  return with.reach.always || pays;
}

bool goes_direct(const Context& with, std::size_t bytes, std::size_t count) {
  const std::size_t room = with.steps.slot_bytes() / sizeof(Address);
  const bool enough = bytes >= kDirectBytes || with.reach.always;
  return enough && with.reach.any() && count + 1 < room && with.checks == nullptr;
}

Result<bool> direct_gather(const Context& with, const Work& work, const Copier& copier,
                           bool reads) {
  const auto me = static_cast<std::size_t>(with.steps.rank());
  const auto& parts = with.scratch.chunks;
  RONDE_ASSIGN_OR_RETURN(
      const Places places,
      Places::exchange(with, inputs_of(parts[me]), favours_kernel(with, total_bytes(work))));
  if (!places.usable()) return false;
  for (std::size_t i = 1; reads && i < parts.size(); ++i) {
    const std::size_t from = (me + i) % parts.size();
    const Place& place = places.of(from);
    Transfer pull(Transfer::Direction::kPull, with, from, place.in_mapped ? &copier : nullptr);
    for (std::size_t s = 0; s < parts[from].size(); ++s) {
      const Segment& piece = parts[from][s];
      if (piece.bytes == 0 || piece.out == nullptr) continue;
      pull.add(place.segments[s].in, piece.out, piece.bytes);
    }
    RONDE_RETURN_IF_ERROR(pull.finish());
  }
  RONDE_RETURN_IF_ERROR(synchronise(with));
  return true;
}

Result<bool> direct_alltoall(const Context& with, const Parcels& parcels, const Copier& copier) {
  const auto me = static_cast<std::size_t>(with.steps.rank());
  const std::size_t ranks = parcels.sent.size();
  RONDE_ASSIGN_OR_RETURN(const Places places,
                         Places::exchange(with, inputs_of(parcels.sent),
                                          favours_kernel_exchange(with, ranks * parcels.largest)));
  if (!places.usable()) return false;
  for (std::size_t i = 1; i < ranks; ++i) {
    const std::size_t from = (me + i) % ranks;
    const Segment& piece = parcels.received[from];
    if (piece.bytes == 0 || piece.out == nullptr) continue;
    const Place& place = places.of(from);
    Transfer pull(Transfer::Direction::kPull, with, from, place.in_mapped ? &copier : nullptr);
    pull.add(place.segments[me].in, piece.out, piece.bytes);
    RONDE_RETURN_IF_ERROR(pull.finish());
  }
  RONDE_RETURN_IF_ERROR(synchronise(with));
  return true;
}

Result<bool> direct_reduce_scatter(const Context& with, const Work& work) {
  const auto me = static_cast<std::size_t>(with.steps.rank());
  const auto& parts = with.scratch.chunks;
  const std::size_t total = total_bytes(work);
  RONDE_ASSIGN_OR_RETURN(Places places, Places::exchange(with, whole_inputs(with.scratch, work),
                                                         favours_kernel(with, total)));
  if (!places.usable()) return false;
  places.advance_inputs(chunk_offsets(with.scratch, me));
  Share share{.own = Cursor(parts[me]), .streaming = streams(with, total)};
  for (const Segment& piece : parts[me]) share.bytes += piece.bytes;
  RONDE_RETURN_IF_ERROR(
      OwnChunk(with, work.reduction, places, share).run([](const Cursor&, std::size_t) {
        return Status();
      }));
  RONDE_RETURN_IF_ERROR(synchronise(with));
  return true;
}

}  // namespace ronde::shm
