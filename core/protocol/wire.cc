#include "core/protocol/wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/wire_codec.h"

namespace ronde {
namespace {

// At least what a value's numbers and the lengths of its texts and lists take.
constexpr std::size_t kValueBytes = 128;
// A tick is cut here, so that the largest report still fits.
constexpr std::size_t kTickCutBytes = kMaxNegotiationFrameBytes - kMaxRequestBytes -
                                      (1 + sizeof(int)) * kMaxPayloadBytes - (64 << 10);

Status malformed(std::string_view what) {
  return Status(Code::kInvalidArgument, fmt::format("malformed frame: {}", what));
}

/// Refuses an operation that has not exactly one of name and ordinal.
Status check_identity(const std::string& name, std::uint64_t ordinal) {
  if (name.empty() == (ordinal == 0)) return malformed("a key needs a name or an ordinal");
  return name.size() > kMaxNameBytes ? malformed("a name is too long") : Status();
}

Status check(const OpKey& key) { return check_identity(key.name, key.ordinal); }
Status check(const Notice& notice) { return check(notice.key); }
Status check(const Overdue& overdue) { return check(overdue.key); }

Status check(Code code) { return code > kLastCode ? malformed("unknown code") : Status(); }

Status check_kind(int kind) {
  return kind < 0 || kind >= kCollectiveCount ? malformed("unknown collective") : Status();
}

Status check_request(const Request& request, std::uint64_t ordinal) {
  RONDE_RETURN_IF_ERROR(with_request(validate(request), request));
  return check_identity(request.name, ordinal);
}

Status check(const Report& report);
Status check(const StallFact& fact);
Status check(const BatchItem& item);

template <typename T>
Status check(const std::vector<T>& list) {
  for (const T& each : list) {
    RONDE_RETURN_IF_ERROR(check(each));
  }
  return {};
}

Status check(const Report& report) {
  RONDE_RETURN_IF_ERROR(check(report.code));
  if (report.slot >= 0) return {};
  if (report.request == nullptr) return malformed("a report needs a request");
  return check_request(*report.request, report.ordinal);
}

Status check(const StallFact& fact) {
  RONDE_RETURN_IF_ERROR(check(fact.key));
  if (fact.kind != -1) {
    RONDE_RETURN_IF_ERROR(check_kind(fact.kind));
  }
  if (fact.blocked.rank < 0) return {};
  RONDE_RETURN_IF_ERROR(check(fact.blocked.key));
  RONDE_RETURN_IF_ERROR(check_kind(static_cast<int>(fact.blocked.kind)));
  return check(fact.blocked.others);
}

Status check(const TickFrame& tick) {
  RONDE_RETURN_IF_ERROR(check(tick.reports));
  RONDE_RETURN_IF_ERROR(check(tick.notices));
  RONDE_RETURN_IF_ERROR(check(tick.overdue));
  return check(tick.facts);
}

Status check(const BatchItem& item) {
  RONDE_RETURN_IF_ERROR(check(item.code));
  RONDE_RETURN_IF_ERROR(check_kind(static_cast<int>(item.kind)));
  if (item.request != nullptr) {
    RONDE_RETURN_IF_ERROR(check_request(*item.request, item.ordinal));
  }
  const bool fails = item.code != Code::kOk;
  const bool joins = item.last_joined >= 0;
  const bool agrees = item.request != nullptr || item.slot >= 0;
  const bool closes = item.leaver >= 0;
  if (fails + joins + agrees + closes != 1) return malformed("an item must say exactly one thing");
  return fails ? check_identity(item.name, item.ordinal) : Status();
}

Status check(const BatchFrame& batch) {
  if (!batch.priorities.empty() && batch.priorities.size() != batch.order.size()) {
    return malformed("not a priority for each entry");
  }
  for (const std::int32_t entry : batch.order) {
    if (entry < 0 && static_cast<std::size_t>(-1 - entry) >= batch.items.size()) {
      return malformed("the order names an item that is not there");
    }
  }
  return check(batch.items);
}

Status check(const QueryFrame& query) { return check(query.keys); }
Status check(const WarningFrame& /*any texts*/) { return {}; }

template <typename Body>
Result<FrameKind> read_body(WireReader& wire, FrameKind kind, Body& body) {
  wire(body);
  RONDE_RETURN_IF_ERROR(wire.finish());
  RONDE_RETURN_IF_ERROR(check(body));
  return kind;
}

std::size_t wire_bytes(const OpKey& key) noexcept { return kValueBytes + key.name.size(); }

std::size_t wire_bytes(const Report& report) noexcept {
  return kValueBytes + report.message.size() + report.payload.bytes.size() +
         sizeof(int) * report.payload.ranks.size() +
         (report.request == nullptr ? 0 : ronde::wire_bytes(*report.request));
}

std::size_t wire_bytes(const Notice& notice) noexcept {
  return wire_bytes(notice.key) + notice.message.size();
}

std::size_t wire_bytes(const Overdue& overdue) noexcept { return wire_bytes(overdue.key); }

std::size_t wire_bytes(const StallFact& fact) noexcept {
  const BlockedRank& blocked = fact.blocked;
  std::size_t bytes = wire_bytes(fact.key) + sizeof(int) * fact.missing.size() +
                      wire_bytes(blocked.key) + blocked.site.size();
  for (const OpKey& key : blocked.others) bytes += wire_bytes(key);
  return bytes;
}

/// Takes from the front of `rest` what still fits, and counts its bytes.
template <typename Value>
std::span<const Value> cut(std::span<const Value>& rest, std::size_t& bytes) {
  std::size_t count = 0;
  while (count < rest.size() && bytes < kTickCutBytes) bytes += wire_bytes(rest[count++]);
  const auto taken = rest.first(count);
  rest = rest.subspan(count);
  return taken;
}

/// Part of a tick that fits into one frame. The fields are those of TickFrame.
struct TickPart {
  std::uint64_t acked = 0;
  std::uint32_t first_word = 0;
  std::span<const std::uint64_t> words = {};
  std::span<const Report> reports = {};
  std::span<const Notice> notices = {};
  std::span<const Overdue> overdue = {};
  std::uint64_t query = 0;
  std::span<const StallFact> facts = {};
  int last_joined = -1;
  int leaver = -1;
  std::string_view farewell = {};

  static void fields(auto& wire, auto& self) { TickFrame::fields(wire, self); }
};

}  // namespace

std::size_t wire_bytes(const Request& request) noexcept {
  std::size_t bytes = 2 * kValueBytes + request.name.size() + request.compression.size() +
                      request.call_site.size() + request.program.size();
  for (const TensorMeta& tensor : request.tensors) bytes += 2 + 8 * tensor.shape.size();
  return bytes;
}

std::size_t wire_bytes(const BatchItem& item) noexcept {
  return kValueBytes + item.message.size() + item.name.size() + item.result.size() +
         (item.request == nullptr ? 0 : wire_bytes(*item.request));
}

Result<FrameKind> FrameReader::read(std::span<const std::byte> frame) {
  if (frame.size() > kMaxNegotiationFrameBytes) return malformed("length");
  WireReader wire(frame, "frame");
  FrameKind kind{};
  wire(kind);
  switch (kind) {
    case FrameKind::kTick:
      return read_body(wire, kind, tick);
    case FrameKind::kBatch:
      return read_body(wire, kind, batch);
    case FrameKind::kQuery:
      return read_body(wire, kind, query);
    case FrameKind::kWarning:
      return read_body(wire, kind, warning);
  }
  return malformed("unknown kind");
}

template <typename Body>
void FrameWriter::send(FrameKind kind, const Body& body, const FrameSink& sink) {
  WireWriter wire(std::move(bytes_));
  wire(kind, body);
  bytes_ = wire.take();
  sink(bytes_);
}

void FrameWriter::write(const TickFrame& tick, const FrameSink& sink) {
  std::size_t fact_bytes = 0;
  for (const StallFact& fact : tick.facts) fact_bytes += wire_bytes(fact);
  std::span<const Report> reports(tick.reports);
  std::span<const Notice> notices(tick.notices);
  std::span<const Overdue> overdue(tick.overdue);
  TickPart part{.acked = tick.acked, .first_word = tick.first_word, .words = tick.words};
  for (bool last = false; !last; part.words = {}) {
    std::size_t bytes = kValueBytes + part.words.size_bytes();
    part.reports = cut(reports, bytes);
    part.notices = cut(notices, bytes);
    part.overdue = cut(overdue, bytes);
    last = reports.empty() && notices.empty() && overdue.empty() &&
           (fact_bytes == 0 || bytes < kTickCutBytes);
    if (last) {
      part.query = tick.query;
      part.facts = tick.facts;
      part.last_joined = tick.last_joined;
      part.leaver = tick.leaver;
      part.farewell = tick.farewell;
    }
    send(FrameKind::kTick, part, sink);
  }
}

void FrameWriter::write(const BatchFrame& batch, const FrameSink& sink) {
  send(FrameKind::kBatch, batch, sink);
}

void FrameWriter::write(const QueryFrame& query, const FrameSink& sink) {
  send(FrameKind::kQuery, query, sink);
}

void FrameWriter::write(const WarningFrame& warning, const FrameSink& sink) {
  send(FrameKind::kWarning, warning, sink);
}

}  // namespace ronde
