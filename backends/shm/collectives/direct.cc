#include "backends/shm/collectives/direct.h"

#include <algorithm>
#include <utility>

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

}  // namespace

Status synchronise(const Context& with) {
  RONDE_RETURN_IF_ERROR(with.steps.begin(with.stop));
  with.steps.arrive();
  return with.steps.wait_all(with.steps.current() - 1, with.stop);
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
  return enough && with.reach.any() && count + 1 < room;
}

}  // namespace ronde::shm
