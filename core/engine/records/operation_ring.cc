#include "core/engine/records/operation_ring.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ronde {
namespace {

constexpr std::size_t kNameWords = 7;
constexpr std::size_t kNameBytes = kNameWords * sizeof(std::uint64_t);
/// How many slots a new operation passes over because theirs is still under way.
constexpr std::uint64_t kPassedOver = 16;
constexpr std::uint32_t kFirstReserved = OperationRing::kSlots;

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
struct alignas(64) OperationRing::Slot {
  std::atomic<std::uint64_t> number;
  std::array<std::atomic<std::uint64_t>, kNameWords> name;
  std::array<std::atomic<std::int64_t>, kOperationStages> at_ns;
  std::atomic<std::uint64_t> bytes;
  std::atomic<std::uint64_t> call;
  std::atomic<std::int32_t> set;
  std::atomic<std::uint8_t> name_bytes;
  std::atomic<std::uint8_t> kind;
  std::atomic<std::uint8_t> code;

  [[nodiscard]] std::atomic<std::int64_t>& at(OperationStage stage) noexcept {
    return at_ns[static_cast<std::size_t>(stage)];
  }
  [[nodiscard]] bool under_way() const noexcept {
    return number.load(std::memory_order_acquire) != 0 &&
           at_ns[static_cast<std::size_t>(OperationStage::kDone)].load(std::memory_order_acquire) ==
               0;
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
  void begin(const OperationFacts& facts, const RecordTicket& ticket) noexcept {
    for (auto& stage : at_ns) stage.store(0, std::memory_order_release);
    kind.store(static_cast<std::uint8_t>(facts.kind), std::memory_order_release);
    bytes.store(facts.bytes, std::memory_order_release);
    call.store(facts.call, std::memory_order_release);
    code.store(0, std::memory_order_release);
    at(OperationStage::kSubmitted).store(ticket.submitted_ns, std::memory_order_release);
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
  bool read(OperationRecord& into) const {
    into.number = number.load(std::memory_order_acquire);
    if (into.number == 0) return false;
    into.name = read_name();
    into.kind = operation_kind_name(kind.load(std::memory_order_acquire));
    into.set = set.load(std::memory_order_acquire);
    into.bytes = bytes.load(std::memory_order_acquire);
    into.call = call.load(std::memory_order_acquire);
    into.code = static_cast<Code>(code.load(std::memory_order_acquire));
    for (std::size_t i = 0; i < kOperationStages; ++i) {
      into.at_ns[i] = at_ns[i].load(std::memory_order_acquire);
    }
    return number.load(std::memory_order_acquire) == into.number;
  }
};

OperationRing::OperationRing() : slots_(std::make_unique<Slot[]>(kSlots + kReserved)) {}
OperationRing::~OperationRing() = default;

OperationRing::Slot& OperationRing::claim(std::uint64_t number, std::uint32_t& index) noexcept {
  for (std::uint64_t i = 0; i < kPassedOver; ++i) {
    // Operations under way are passed over by a stride, so that numbers which come next stay free.
    index = static_cast<std::uint32_t>((number + i * (kSlots / kPassedOver)) % kSlots);
    if (!slots_[index].under_way()) break;
  }
  return slots_[index];
}

RecordTicket OperationRing::begin(const OperationFacts& facts) noexcept {
  RecordTicket ticket{.kind = facts.kind, .bytes = facts.bytes};
  ticket.number = last_.fetch_add(1, std::memory_order_relaxed) + 1;
  Slot& slot = claim(ticket.number, ticket.slot);
  slot.number.store(0, std::memory_order_release);
  slot.write_name(facts.name);
  slot.set.store(facts.set, std::memory_order_release);
  ticket.submitted_ns = to_ns(now());
  slot.begin(facts, ticket);
  return ticket;
}

RecordTicket OperationRing::reserve(std::string_view name, std::int32_t set) noexcept {
  for (std::uint32_t i = 0; i < kReserved; ++i) {
    if (taken_[i].exchange(true, std::memory_order_acquire)) continue;
    Slot& slot = slots_[kFirstReserved + i];
    slot.number.store(0, std::memory_order_release);
    slot.write_name(name);
    slot.set.store(set, std::memory_order_release);
    return {.number = 1, .slot = kFirstReserved + i};
  }
  return {};
}

RecordTicket OperationRing::begin_in(const RecordTicket& reserved, const OperationFacts& facts,
                                     TimePoint when) noexcept {
  if (reserved.number == 0) return {};
  RecordTicket ticket{.slot = reserved.slot, .kind = facts.kind, .bytes = facts.bytes};
  ticket.number = last_.fetch_add(1, std::memory_order_relaxed) + 1;
  ticket.submitted_ns = to_ns(when);
  Slot& slot = slots_[ticket.slot];
  slot.number.store(0, std::memory_order_release);
  slot.begin(facts, ticket);
  return ticket;
}

void OperationRing::release(const RecordTicket& reserved) noexcept {
  if (reserved.number == 0) return;
  taken_[reserved.slot - kFirstReserved].store(false, std::memory_order_release);
}

OperationRing::Slot* OperationRing::current(RecordTicket ticket) noexcept {
  if (ticket.number == 0) return nullptr;
  Slot& slot = slots_[ticket.slot];
  return slot.number.load(std::memory_order_relaxed) == ticket.number ? &slot : nullptr;
}

void OperationRing::reach(RecordTicket ticket, OperationStage stage, TimePoint when) noexcept {
  Slot* slot = current(ticket);
  if (slot == nullptr || slot->at(stage).load(std::memory_order_relaxed) != 0) return;
  slot->at(stage).store(to_ns(when), std::memory_order_release);
}

void OperationRing::end(RecordTicket ticket, Code code, TimePoint when) noexcept {
  Slot* slot = current(ticket);
  if (slot == nullptr) return;
  slot->code.store(static_cast<std::uint8_t>(code), std::memory_order_relaxed);
  slot->at(OperationStage::kDone).store(to_ns(when), std::memory_order_release);
}

template <typename Wanted>
std::vector<OperationRecord> OperationRing::collect(const Wanted& wanted) const {
  std::vector<OperationRecord> records;
  OperationRecord record;
  for (std::size_t i = 0; i < kSlots + kReserved; ++i) {
    if (wanted(slots_[i]) && slots_[i].read(record)) records.push_back(record);
  }
  std::sort(records.begin(), records.end(),
            [](const OperationRecord& a, const OperationRecord& b) { return a.number < b.number; });
  return records;
}

std::vector<OperationRecord> OperationRing::all() const {
  return collect([](const Slot&) { return true; });
}

std::vector<OperationRecord> OperationRing::pending() const {
  std::vector<OperationRecord> records = collect([](const Slot& slot) { return slot.under_way(); });
  std::erase_if(records, [](const OperationRecord& record) { return record.done(); });
  return records;
}

std::vector<OperationRecord> OperationRing::failed(std::int64_t since_ns) const {
  std::vector<OperationRecord> records =
      collect([](const Slot& slot) { return !slot.under_way(); });
  std::erase_if(records, [since_ns](const OperationRecord& record) {
    return record.code == Code::kOk || record.at(OperationStage::kDone) < since_ns;
  });
  return records;
}

OperationRecord OperationRing::last_finished() const {
  OperationRecord last;
  OperationRecord record;
  for (std::size_t i = 0; i < kSlots + kReserved; ++i) {
    if (!slots_[i].read(record) || !record.done() || record.code != Code::kOk) continue;
    if (record.at(OperationStage::kDone) > last.at(OperationStage::kDone)) std::swap(last, record);
  }
  return last;
}

std::string_view operation_kind_name(int kind) noexcept {
  if (kind == kSendKind) return "send";
  if (kind == kRecvKind) return "recv";
  return kind < kCollectiveCount ? to_string(static_cast<Collective>(kind)) : "unknown";
}

}  // namespace ronde
