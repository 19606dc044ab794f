#include "core/engine/records/flight_ring.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ronde {
namespace {

constexpr std::size_t kNameWords = 7;
constexpr std::size_t kNameBytes = kNameWords * sizeof(std::uint64_t);
/// How many slots a new operation passes over because theirs is still under way.
constexpr std::uint64_t kPassedOver = 16;
constexpr std::uint32_t kFirstSeat = FlightRing::kSlots;

/// Cut where a character of UTF-8 begins.
std::string_view beginning(std::string_view name) noexcept {
  if (name.size() <= kNameBytes) return name;
  std::size_t end = kNameBytes;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0U) == 0x80U) --end;
  return name.substr(0, end);
}

}  // namespace

/// All fields are atomic, as readers do not stop writers. `number` is 0 while the rest is written.
/// A reader that finds it the same before and after has read one record. So the rest is stored with
/// release (never before the 0) and loaded with acquire (never after the second look).
struct alignas(64) FlightRing::Slot {
  std::atomic<std::uint64_t> number;
  std::array<std::atomic<std::uint64_t>, kNameWords> name;
  std::array<std::atomic<std::int64_t>, kFlightStages> at_ns;
  std::atomic<std::uint64_t> bytes;
  std::atomic<std::uint64_t> call;
  std::atomic<std::int32_t> set;
  std::atomic<std::uint8_t> name_bytes;
  std::atomic<std::uint8_t> kind;
  std::atomic<std::uint8_t> code;

  [[nodiscard]] std::atomic<std::int64_t>& at(FlightStage stage) noexcept {
    return at_ns[static_cast<std::size_t>(stage)];
  }
  [[nodiscard]] bool under_way() const noexcept {
    return number.load(std::memory_order_acquire) != 0 &&
           at_ns[static_cast<std::size_t>(FlightStage::kDone)].load(std::memory_order_acquire) == 0;
  }
  void write_name(std::string_view text) noexcept {
    std::array<std::uint64_t, kNameWords> words{};
    text = beginning(text);
    if (!text.empty()) std::memcpy(words.data(), text.data(), text.size());
    const std::size_t used = (text.size() + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t);
    for (std::size_t i = 0; i < used; ++i) name[i].store(words[i], std::memory_order_release);
    name_bytes.store(static_cast<std::uint8_t>(text.size()), std::memory_order_release);
  }
  /// Writes the rest of a record, and makes it one that counts.
  void begin(const FlightPlan& plan, const FlightTicket& ticket) noexcept {
    for (auto& stage : at_ns) stage.store(0, std::memory_order_release);
    kind.store(static_cast<std::uint8_t>(plan.kind), std::memory_order_release);
    bytes.store(plan.bytes, std::memory_order_release);
    call.store(plan.call, std::memory_order_release);
    code.store(0, std::memory_order_release);
    at(FlightStage::kSubmitted).store(ticket.submitted_ns, std::memory_order_release);
    number.store(ticket.number, std::memory_order_release);
  }
  [[nodiscard]] std::string read_name() const {
    std::array<std::uint64_t, kNameWords> words{};
    for (std::size_t i = 0; i < kNameWords; ++i) words[i] = name[i].load(std::memory_order_acquire);
    std::string text(name_bytes.load(std::memory_order_acquire), '\0');
    std::memcpy(text.data(), words.data(), std::min(text.size(), kNameBytes));
    return text;
  }
  /// False where it was empty, or written meanwhile.
  bool read(Flight& into) const {
    into.number = number.load(std::memory_order_acquire);
    if (into.number == 0) return false;
    into.name = read_name();
    into.kind = flight_kind_name(kind.load(std::memory_order_acquire));
    into.set = set.load(std::memory_order_acquire);
    into.bytes = bytes.load(std::memory_order_acquire);
    into.call = call.load(std::memory_order_acquire);
    into.code = static_cast<Code>(code.load(std::memory_order_acquire));
    for (std::size_t i = 0; i < kFlightStages; ++i) {
      into.at_ns[i] = at_ns[i].load(std::memory_order_acquire);
    }
    return number.load(std::memory_order_acquire) == into.number;
  }
};

FlightRing::FlightRing() : slots_(std::make_unique<Slot[]>(kSlots + kSeats)) {}
FlightRing::~FlightRing() = default;

FlightRing::Slot& FlightRing::claim(std::uint64_t number, std::uint32_t& index) noexcept {
  for (std::uint64_t i = 0; i < kPassedOver; ++i) {
    // Operations under way are passed over by a stride, so that numbers which come next stay free.
    index = static_cast<std::uint32_t>((number + i * (kSlots / kPassedOver)) % kSlots);
    if (!slots_[index].under_way()) break;
  }
  return slots_[index];
}

FlightTicket FlightRing::begin(const FlightPlan& plan) noexcept {
  FlightTicket ticket{.kind = plan.kind, .bytes = plan.bytes};
  ticket.number = last_.fetch_add(1, std::memory_order_relaxed) + 1;
  Slot& slot = claim(ticket.number, ticket.slot);
  slot.number.store(0, std::memory_order_release);
  slot.write_name(plan.name);
  slot.set.store(plan.set, std::memory_order_release);
  ticket.submitted_ns = to_ns(now());
  slot.begin(plan, ticket);
  return ticket;
}

FlightTicket FlightRing::take_seat(std::string_view name, std::int32_t set) noexcept {
  for (std::uint32_t i = 0; i < kSeats; ++i) {
    if (taken_[i].exchange(true, std::memory_order_acquire)) continue;
    Slot& slot = slots_[kFirstSeat + i];
    slot.number.store(0, std::memory_order_release);
    slot.write_name(name);
    slot.set.store(set, std::memory_order_release);
    return {.number = 1, .slot = kFirstSeat + i};
  }
  return {};
}

FlightTicket FlightRing::begin_in(const FlightTicket& seat, const FlightPlan& plan,
                                  TimePoint when) noexcept {
  if (seat.number == 0) return {};
  FlightTicket ticket{.slot = seat.slot, .kind = plan.kind, .bytes = plan.bytes};
  ticket.number = last_.fetch_add(1, std::memory_order_relaxed) + 1;
  ticket.submitted_ns = to_ns(when);
  Slot& slot = slots_[ticket.slot];
  slot.number.store(0, std::memory_order_release);
  slot.begin(plan, ticket);
  return ticket;
}

void FlightRing::leave_seat(const FlightTicket& seat) noexcept {
  if (seat.number == 0) return;
  taken_[seat.slot - kFirstSeat].store(false, std::memory_order_release);
}

FlightRing::Slot* FlightRing::current(FlightTicket ticket) noexcept {
  if (ticket.number == 0) return nullptr;
  Slot& slot = slots_[ticket.slot];
  return slot.number.load(std::memory_order_relaxed) == ticket.number ? &slot : nullptr;
}

void FlightRing::reach(FlightTicket ticket, FlightStage stage, TimePoint when) noexcept {
  Slot* slot = current(ticket);
  if (slot == nullptr || slot->at(stage).load(std::memory_order_relaxed) != 0) return;
  slot->at(stage).store(to_ns(when), std::memory_order_release);
}

void FlightRing::end(FlightTicket ticket, Code code, TimePoint when) noexcept {
  Slot* slot = current(ticket);
  if (slot == nullptr) return;
  slot->code.store(static_cast<std::uint8_t>(code), std::memory_order_relaxed);
  slot->at(FlightStage::kDone).store(to_ns(when), std::memory_order_release);
}

template <typename Wanted>
std::vector<Flight> FlightRing::collect(const Wanted& wanted) const {
  std::vector<Flight> flights;
  Flight flight;
  for (std::size_t i = 0; i < kSlots + kSeats; ++i) {
    if (wanted(slots_[i]) && slots_[i].read(flight)) flights.push_back(flight);
  }
  std::sort(flights.begin(), flights.end(),
            [](const Flight& a, const Flight& b) { return a.number < b.number; });
  return flights;
}

std::vector<Flight> FlightRing::all() const {
  return collect([](const Slot&) { return true; });
}

std::vector<Flight> FlightRing::pending() const {
  std::vector<Flight> flights = collect([](const Slot& slot) { return slot.under_way(); });
  std::erase_if(flights, [](const Flight& flight) { return flight.done(); });
  return flights;
}

std::vector<Flight> FlightRing::failed(std::int64_t since_ns) const {
  std::vector<Flight> flights = collect([](const Slot& slot) { return !slot.under_way(); });
  std::erase_if(flights, [since_ns](const Flight& flight) {
    return flight.code == Code::kOk || flight.at(FlightStage::kDone) < since_ns;
  });
  return flights;
}

Flight FlightRing::last_finished() const {
  Flight last;
  Flight flight;
  for (std::size_t i = 0; i < kSlots + kSeats; ++i) {
    if (!slots_[i].read(flight) || !flight.done() || flight.code != Code::kOk) continue;
    if (flight.at(FlightStage::kDone) > last.at(FlightStage::kDone)) std::swap(last, flight);
  }
  return last;
}

std::string_view flight_kind_name(int kind) noexcept {
  if (kind == kSendFlight) return "send";
  if (kind == kRecvFlight) return "recv";
  return kind < kCollectiveCount ? to_string(static_cast<Collective>(kind)) : "unknown";
}

}  // namespace ronde
