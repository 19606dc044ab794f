#include "timeline/merging/perfetto_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>

namespace ronde {
namespace {

// Fields of perfetto.protos, by message.
namespace trace {
constexpr std::uint32_t kPacket = 1;
}
namespace packet {
constexpr std::uint32_t kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kFlags = 13, kTrack = 60;
}
namespace track {
constexpr std::uint32_t kId = 1, kName = 2, kParent = 5, kCounter = 8, kOrdering = 11, kPlace = 12;
}
namespace track_event {
constexpr std::uint32_t kAnnotation = 4, kType = 9, kTrackId = 11, kName = 23, kReal = 44,
                        kFlow = 47;
}
namespace annotation {
constexpr std::uint32_t kNumber = 3, kText = 6, kName = 10;
}
constexpr std::uint64_t kBegin = 1, kEnd = 2, kInstant = 3, kCounter = 4;
constexpr std::uint64_t kFirstOfSequence = 1;
constexpr std::uint64_t kByPlace = 3;  // of ChildTracksOrdering

constexpr std::uint32_t kWireVarint = 0, kWire64 = 1, kWireBytes = 2;

/// Track numbers: threads use their number, the rank 0. Counters count from kFirstCounter.
constexpr int kTrackBits = 32;
constexpr std::uint64_t kFirstCounter = std::uint64_t{1} << 30;  // a place has 31 bits

std::uint64_t rank_track(std::int64_t rank) {
  return (static_cast<std::uint64_t>(rank) + 1) << kTrackBits;
}

/// Track 0 is the rank itself: its marks concern the whole rank.
std::uint64_t thread_track(const report::TraceEvent& event) {
  if (event.tid == 0) return rank_track(event.pid);
  return rank_track(event.pid) + 1 + static_cast<std::uint64_t>(event.tid);
}

/// The place of a row's number in its name, as in "rank 7 (host)"; npos: it has none.
std::size_t number_at(std::string_view name, std::string_view number) {
  const std::size_t at = name.find(' ') + 1;
  return name.substr(at).starts_with(number) ? at : std::string_view::npos;
}

/// The digits of the largest number in the names of rows.
std::size_t digits_of(const std::map<std::int64_t, std::string>& rows) {
  std::size_t digits = 1;
  for (const auto& [pid, name] : rows) {
    const std::string number = fmt::to_string(pid);
    if (number_at(name, number) != std::string::npos) digits = std::max(digits, number.size());
  }
  return digits;
}

/// "rank 07 (host)": Perfetto sorts rows by their names.
std::string padded(std::string name, std::int64_t pid, std::size_t digits) {
  const std::string number = fmt::to_string(pid);
  const std::size_t at = number_at(name, number);
  if (at != std::string::npos) name.insert(at, digits - number.size(), '0');
  return name;
}

/// Appends an event's fields as debug annotations. A use of EventArgs::fields.
class Annotations {
 public:
  /// `part`: room for one annotation.
  Annotations(std::string& out, std::string& part) : out_(out), part_(part) {}

  void operator()(std::string_view name, std::uint64_t value) {
    if (value == 0) return;
    add(name, [&](ProtoWriter& to) { to.number(annotation::kNumber, value); });
  }
  void operator()(std::string_view name, int value) {
    (*this)(name, static_cast<std::uint64_t>(value));
  }
  /// Times are whole numbers here: "pack_us" in JSON is "pack_ns".
  void operator()(std::string_view name, std::int64_t time) {
    (*this)(std::string(name.substr(0, name.rfind('_'))) + "_ns", static_cast<std::uint64_t>(time));
  }
  void operator()(std::string_view name, std::string_view text) {
    if (text.empty()) return;
    add(name, [&](ProtoWriter& to) { to.bytes(annotation::kText, text); });
  }
  void operator()(std::string_view name, const std::optional<Collective>& collective) {
    if (collective) (*this)(name, to_string(*collective));
  }

 private:
  template <typename Put>
  void add(std::string_view name, Put put) {
    part_.clear();
    ProtoWriter writer(part_);
    writer.bytes(annotation::kName, name);
    put(writer);
    ProtoWriter(out_).bytes(track_event::kAnnotation, part_);
  }

  std::string& out_;
  std::string& part_;
};

}  // namespace

void ProtoWriter::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out_ += static_cast<char>(value | 0x80);
  out_ += static_cast<char>(value);
}

void ProtoWriter::number(std::uint32_t field, std::uint64_t value) {
  varint((field << 3) | kWireVarint);
  varint(value);
}

void ProtoWriter::fixed(std::uint32_t field, std::uint64_t value) {
  varint((field << 3) | kWire64);
  for (int shift = 0; shift < 64; shift += 8) out_ += static_cast<char>(value >> shift);
}

void ProtoWriter::bytes(std::uint32_t field, std::string_view value) {
  varint((field << 3) | kWireBytes);
  varint(value.size());
  out_ += value;
}

void PerfettoOutput::write_packet() {
  ProtoWriter writer(packet_);
  writer.number(packet::kSequence, 1);
  if (!any_) writer.number(packet::kFlags, kFirstOfSequence);
  any_ = true;
  part_.clear();
  ProtoWriter(part_).bytes(trace::kPacket, packet_);
  file_.write(part_);
  packet_.clear();
}

/// The track of a rank, whose children stand in the order of their numbers.
void PerfettoOutput::add_row(std::uint64_t id, std::string_view name) {
  body_.clear();
  ProtoWriter writer(body_);
  writer.number(track::kId, id);
  writer.bytes(track::kName, name);
  writer.number(track::kOrdering, kByPlace);
  ProtoWriter(packet_).bytes(packet::kTrack, body_);
  write_packet();
}

void PerfettoOutput::add_track(std::uint64_t id, std::uint64_t parent, std::string_view name,
                               bool counter) {
  body_.clear();
  ProtoWriter writer(body_);
  writer.number(track::kId, id);
  writer.bytes(track::kName, name);
  writer.number(track::kParent, parent);
  writer.number(track::kPlace, id - parent);
  if (counter) writer.bytes(track::kCounter, {});
  ProtoWriter(packet_).bytes(packet::kTrack, body_);
  write_packet();
}

/// Readers join events of the same number in time order.
void PerfettoOutput::append_arrows(const MergedEvent& merged) {
  ProtoWriter writer(body_);
  for (const std::uint64_t arrow : flows_.leaving(merged.event, merged.time_ns)) {
    writer.fixed(track_event::kFlow, arrow);
  }
  if (const auto arrow = flows_.arriving(merged.event, merged.time_ns)) {
    writer.fixed(track_event::kFlow, *arrow);
  }
}

void PerfettoOutput::add_packet(std::uint64_t type, std::uint64_t track,
                                const MergedEvent& merged) {
  const report::TraceEvent& event = merged.event;
  body_.clear();
  ProtoWriter writer(body_);
  writer.number(track_event::kType, type);
  writer.number(track_event::kTrackId, track);
  if (type == kCounter) {
    writer.fixed(track_event::kReal, std::bit_cast<std::uint64_t>(event.value));
  } else {
    if (!event.name.empty()) writer.bytes(track_event::kName, event.name);
    append_arrows(merged);
    Annotations annotations(body_, part_);
    EventArgs::fields(event, annotations);
    LauncherFacts::fields(event, annotations);
  }
  ProtoWriter packet(packet_);
  packet.number(packet::kTimestamp,
                static_cast<std::uint64_t>(std::max<std::int64_t>(0, merged.time_ns)));
  packet.bytes(packet::kTrackEvent, body_);
  write_packet();
}

void PerfettoOutput::add_counter(const MergedEvent& merged) {
  const report::TraceEvent& event = merged.event;
  const auto key = std::make_pair(event.pid, std::string(event.name));
  const auto [known, added] = counters_.try_emplace(
      key, rank_track(event.pid) + kFirstCounter + static_cast<std::uint64_t>(counters_.size()));
  if (added) add_track(known->second, rank_track(event.pid), event.name, true);
  add_packet(kCounter, known->second, merged);
}

void PerfettoOutput::add(const MergedEvent& merged) {
  const report::TraceEvent& event = merged.event;
  switch (event.phase) {
    case 'M':
      if (event.name == "process_name") rows_[event.pid] = event.given_name;
      if (event.name == "thread_name") {
        add_track(thread_track(event), rank_track(event.pid), event.given_name, false);
      }
      return;
    case 'B':
      return add_packet(kBegin, thread_track(event), merged);
    case 'E':
      return add_packet(kEnd, thread_track(event), merged);
    case 'i':
      return add_packet(kInstant, thread_track(event), merged);
    case 'C':
      return add_counter(merged);
    default:
      return;
  }
}

Status PerfettoOutput::finish() {
  const std::size_t digits = digits_of(rows_);
  for (const auto& [pid, name] : rows_) add_row(rank_track(pid), padded(name, pid, digits));
  return file_.finish();
}

}  // namespace ronde
