#include <algorithm>

#include "core/base/payload_limit.h"
#include "core/protocol/wire.h"
#include "wire_generated.h"

namespace ronde {
namespace {

namespace fb = flatbuffers;

constexpr std::size_t kTableBytes = 128;  // at least a table's own fields, padding included
// Where a tick is cut: the largest report that may come on top still fits.
constexpr std::size_t kCutBytes = kMaxNegotiationFrameBytes - kMaxRequestBytes -
                                  (1 + sizeof(int)) * kMaxPayloadBytes - (64 << 10);

std::size_t wire_bytes(const Report& report) noexcept {
  return kTableBytes + report.message.size() + report.payload.bytes.size() +
         sizeof(int) * report.payload.ranks.size() +
         (report.request == nullptr ? 0 : ronde::wire_bytes(*report.request));
}

std::size_t wire_bytes(const OpKey& key) noexcept { return kTableBytes + key.name.size(); }

}  // namespace

std::size_t wire_bytes(const Request& request) noexcept {
  std::size_t bytes = 2 * kTableBytes + request.name.size() + request.compression.size() +
                      request.call_site.size() + request.program.size();
  for (const TensorMeta& tensor : request.tensors) bytes += 2 + 8 * tensor.shape.size();
  return bytes;
}

std::size_t wire_bytes(const BatchItem& item) noexcept {
  return kTableBytes + item.message.size() + item.name.size() + item.result.size() +
         (item.request == nullptr ? 0 : wire_bytes(*item.request));
}

/// One FlatBufferBuilder, used again for every frame.
class FrameWriter::Builder {
 public:
  fb::Offset<wire::Request> add(const Request& request) {
    dtypes_.clear();
    dimensions_.clear();
    extents_.clear();
    for (const TensorMeta& tensor : request.tensors) {
      dtypes_.push_back(static_cast<std::uint8_t>(tensor.dtype));
      dimensions_.push_back(static_cast<std::uint8_t>(tensor.shape.size()));
      extents_.insert(extents_.end(), tensor.shape.begin(), tensor.shape.end());
    }
    const auto name = text(request.name);
    const auto dtypes = fbb_.CreateVector(dtypes_);
    const auto dimensions = fbb_.CreateVector(dimensions_);
    const auto extents = fbb_.CreateVector(extents_);
    const auto compression = text(request.compression);
    const auto call_site = text(request.call_site);
    const auto program = text(request.program);
    return wire::CreateRequest(fbb_, name, static_cast<std::uint8_t>(request.kind), dtypes,
                               dimensions, extents, static_cast<std::uint8_t>(request.op),
                               request.root, request.prescale, request.postscale, compression,
                               static_cast<std::uint8_t>(request.device.kind), request.priority,
                               call_site, program, request.weight.has_value());
  }

  fb::Offset<wire::Key> add(const OpKey& key) {
    const auto name = text(key.name);
    return wire::CreateKey(fbb_, name, key.ordinal);
  }

  fb::Offset<wire::Report> add(const Report& report) {
    const auto request = report.slot < 0 ? add(*report.request) : fb::Offset<wire::Request>();
    const auto message = text(report.message);
    const auto payload = bytes(report.payload.bytes);
    const auto payload_ranks = scalars(std::span<const std::int32_t>(report.payload.ranks));
    return wire::CreateReport(fbb_, report.ordinal, report.slot, report.rank, request,
                              static_cast<std::uint8_t>(report.code), message, report.weight,
                              report.payload.whole, payload, payload_ranks);
  }

  fb::Offset<wire::Notice> add(const Notice& notice) {
    const auto key = add(notice.key);
    const auto message = text(notice.message);
    return wire::CreateNotice(fbb_, key, message);
  }

  fb::Offset<wire::Overdue> add(const Overdue& overdue) {
    return wire::CreateOverdue(fbb_, add(overdue.key), overdue.fatal, overdue.asks);
  }

  /// No table where there is none.
  fb::Offset<wire::BlockedRank> add(const BlockedRank& blocked) {
    if (blocked.rank < 0) return {};
    const auto key = add(blocked.key);
    const auto site = text(blocked.site);
    const auto others = all<wire::Key>(std::span<const OpKey>(blocked.others));
    return wire::CreateBlockedRank(fbb_, blocked.rank, key, static_cast<std::uint8_t>(blocked.kind),
                                   site, others);
  }

  fb::Offset<wire::StallFact> add(const StallFact& fact) {
    const auto key = add(fact.key);
    const auto missing = fbb_.CreateVector(fact.missing);
    const auto blocked = add(fact.blocked);
    return wire::CreateStallFact(fbb_, key, static_cast<std::int8_t>(fact.kind), missing,
                                 fact.waited_ms, blocked);
  }

  fb::Offset<wire::Item> add(const BatchItem& item) {
    const auto request = item.request == nullptr ? fb::Offset<wire::Request>() : add(*item.request);
    const auto name = text(item.name);
    const auto message = text(item.message);
    const auto result = bytes(item.result);
    return wire::CreateItem(fbb_, item.slot, item.ordinal, request, name,
                            static_cast<std::uint8_t>(item.kind),
                            static_cast<std::uint8_t>(item.code), message, item.last_joined,
                            item.leaver, item.early, item.weight, result);
  }

  /// All of `values`; no vector at all where there are none.
  template <typename Table, typename Value>
  fb::Offset<fb::Vector<fb::Offset<Table>>> all(std::span<const Value> values) {
    if (values.empty()) return {};
    if (values.size() == 1) {  // the usual case, without an allocation
      const fb::Offset<Table> one = add(values[0]);
      return fbb_.CreateVector(&one, 1);
    }
    std::vector<fb::Offset<Table>> offsets;
    offsets.reserve(values.size());
    for (const Value& value : values) offsets.push_back(add(value));
    return fbb_.CreateVector(offsets);
  }

  template <typename T>
  fb::Offset<fb::Vector<T>> scalars(std::span<const T> values) {
    if (values.empty()) return {};
    return fbb_.CreateVector(values.data(), values.size());
  }

  fb::Offset<fb::Vector<std::uint8_t>> bytes(std::span<const std::byte> values) {
    if (values.empty()) return {};
    return fbb_.CreateVector(reinterpret_cast<const std::uint8_t*>(values.data()), values.size());
  }

  fb::Offset<fb::String> text(const std::string& value) {
    return value.empty() ? fb::Offset<fb::String>() : fbb_.CreateString(value);
  }

  /// Closes the frame and hands it on.
  template <typename Table>
  void finish(wire::Body kind, fb::Offset<Table> body, const FrameSink& sink) {
    wire::FinishSizePrefixedFrameBuffer(fbb_, wire::CreateFrame(fbb_, kind, body.Union()));
    sink(std::as_bytes(std::span<const std::uint8_t>(fbb_.GetBufferPointer(), fbb_.GetSize())));
    fbb_.Clear();
  }

  fb::FlatBufferBuilder& fbb() { return fbb_; }

 private:
  fb::FlatBufferBuilder fbb_{1024};
  std::vector<std::uint8_t> dtypes_;
  std::vector<std::uint8_t> dimensions_;
  std::vector<std::int64_t> extents_;
};

FrameWriter::FrameWriter() : builder_(std::make_unique<Builder>()) {}
FrameWriter::~FrameWriter() = default;

namespace {

/// The lists of a tick, consumed from the front, frame by frame.
struct TickRest {
  explicit TickRest(const TickFrame& tick)
      : words(tick.words), reports(tick.reports), notices(tick.notices), overdue(tick.overdue) {}

  [[nodiscard]] bool empty() const {
    return words.empty() && reports.empty() && notices.empty() && overdue.empty();
  }

  std::span<const std::uint64_t> words;
  std::span<const Report> reports;
  std::span<const Notice> notices;
  std::span<const Overdue> overdue;
};

std::size_t wire_bytes(const Notice& notice) noexcept {
  return wire_bytes(notice.key) + notice.message.size() + kTableBytes;
}
std::size_t wire_bytes(const Overdue& overdue) noexcept {
  return wire_bytes(overdue.key) + kTableBytes;
}
std::size_t wire_bytes(const BlockedRank& blocked) noexcept {
  if (blocked.rank < 0) return 0;
  std::size_t bytes = wire_bytes(blocked.key) + blocked.site.size() + kTableBytes;
  for (const OpKey& key : blocked.others) bytes += wire_bytes(key);
  return bytes;
}
std::size_t wire_bytes(const StallFact& fact) noexcept {
  return wire_bytes(fact.key) + 4 * fact.missing.size() + kTableBytes + wire_bytes(fact.blocked);
}

/// Takes from the front of `rest` what still fits, and counts its bytes.
template <typename Value>
std::span<const Value> cut(std::span<const Value>& rest, std::size_t& bytes) {
  std::size_t count = 0;
  while (count < rest.size() && bytes < kCutBytes) bytes += wire_bytes(rest[count++]);
  const auto taken = rest.first(count);
  rest = rest.subspan(count);
  return taken;
}

}  // namespace

void FrameWriter::write(const TickFrame& tick, const FrameSink& sink) {
  std::size_t fact_bytes = 0;
  for (const StallFact& fact : tick.facts) fact_bytes += wire_bytes(fact);
  TickRest rest(tick);
  for (bool last = false; !last;) {
    std::size_t bytes = kTableBytes + 8 * rest.words.size();
    const auto words = builder_->scalars(rest.words);
    rest.words = {};
    const auto reports = builder_->all<wire::Report>(cut(rest.reports, bytes));
    const auto notices = builder_->all<wire::Notice>(cut(rest.notices, bytes));
    const auto overdue = builder_->all<wire::Overdue>(cut(rest.overdue, bytes));
    last = rest.empty() && (fact_bytes == 0 || bytes < kCutBytes);
    const auto facts = builder_->all<wire::StallFact>(
        std::span<const StallFact>(tick.facts).first(last ? tick.facts.size() : 0));
    const auto farewell = builder_->text(last ? tick.farewell : std::string());
    builder_->finish(
        wire::Body_Tick,
        wire::CreateTick(builder_->fbb(), tick.acked, tick.first_word, words, reports, notices,
                         overdue, last ? tick.query : 0, facts, last ? tick.last_joined : -1,
                         last ? tick.leaver : -1, farewell),
        sink);
  }
}

void FrameWriter::write(const BatchFrame& batch, const FrameSink& sink) {
  const auto order = builder_->scalars(std::span<const std::int32_t>(batch.order));
  const auto items = builder_->all<wire::Item>(std::span<const BatchItem>(batch.items));
  const auto priorities = builder_->scalars(std::span<const std::int32_t>(batch.priorities));
  const auto launches = builder_->scalars(std::span<const std::uint64_t>(batch.launches));
  builder_->finish(wire::Body_Batch,
                   wire::CreateBatch(builder_->fbb(), batch.sequence, order, items, priorities,
                                     batch.released, launches),
                   sink);
}

void FrameWriter::write(const QueryFrame& query, const FrameSink& sink) {
  const auto keys = builder_->all<wire::Key>(std::span<const OpKey>(query.keys));
  builder_->finish(wire::Body_Query, wire::CreateQuery(builder_->fbb(), query.query, keys), sink);
}

void FrameWriter::write(const WarningFrame& warning, const FrameSink& sink) {
  const auto texts = builder_->fbb().CreateVectorOfStrings(warning.texts);
  builder_->finish(wire::Body_Warning, wire::CreateWarning(builder_->fbb(), texts), sink);
}

}  // namespace ronde
