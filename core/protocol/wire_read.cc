#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "core/protocol/wire.h"
#include "wire_generated.h"

namespace ronde {
namespace {

namespace fb = flatbuffers;

Status malformed(std::string_view what) {
  return Status(Code::kInvalidArgument, fmt::format("malformed frame: {}", what));
}

std::string text_of(const fb::String* text) {
  return text == nullptr ? std::string() : text->str();
}

/// Leaves `to` as it is where there is no text.
void copy_text(const fb::String* text, std::string& to) {
  if (text != nullptr) to.assign(text->data(), text->size());
}

template <typename T>
std::size_t size_of_list(const fb::Vector<T>* list) {
  return list == nullptr ? 0 : list->size();
}

/// Copies elements from number `first` on. FlatBuffers' verifier does not check how elements wider
/// than a vector's length are aligned, and frames that were tampered with have them anywhere.
template <typename T>
void copy_elements(const fb::Vector<T>* list, std::size_t first, std::vector<T>& to) {
  static_assert(std::endian::native == std::endian::little, "the wire is little-endian");
  if (to.empty()) return;
  std::memcpy(to.data(), list->Data() + first * sizeof(T), to.size() * sizeof(T));
}

Result<Code> code_of(std::uint8_t code) {
  if (code > static_cast<std::uint8_t>(Code::kInternal)) return malformed("unknown code");
  return static_cast<Code>(code);
}

Status read_tensors(const wire::Request& from, Request& to) {
  const std::size_t count = size_of_list(from.dtypes());
  if (size_of_list(from.dimensions()) != count) return malformed("tensor lists differ in length");
  to.tensors.reserve(count);
  std::size_t next = 0;
  for (fb::uoffset_t i = 0; i < count; ++i) {
    const std::size_t dimensions = from.dimensions()->Get(i);
    if (dimensions > size_of_list(from.extents()) - next) return malformed("extents are missing");
    TensorMeta& tensor = to.tensors.emplace_back();
    tensor.dtype = static_cast<DType>(from.dtypes()->Get(i));
    tensor.shape.resize(dimensions);
    copy_elements(from.extents(), next, tensor.shape);
    next += dimensions;
  }
  return {};
}

Result<RequestPtr> read_request(const wire::Request& from) {
  auto to = std::make_shared<Request>();
  to->name = text_of(from.name());
  to->kind = static_cast<Collective>(from.kind());
  RONDE_RETURN_IF_ERROR(read_tensors(from, *to));
  to->op = static_cast<ReduceOp>(from.op());
  to->root = from.root();
  to->prescale = from.prescale();
  to->postscale = from.postscale();
  to->compression = text_of(from.compression());
  to->device.kind = static_cast<DeviceKind>(from.device());
  to->priority = from.priority();
  to->call_site = text_of(from.call_site());
  to->program = text_of(from.program());
  if (from.weighted()) to->weight = 0.0;
  RONDE_RETURN_IF_ERROR(with_request(validate(*to), *to));
  return RequestPtr(std::move(to));
}

Result<OpKey> read_key(const wire::Key* from) {
  if (from == nullptr) return malformed("a key is missing");
  OpKey key{text_of(from->name()), from->ordinal()};
  if (key.name.empty() == (key.ordinal == 0)) return malformed("a key needs a name or an ordinal");
  if (key.name.size() > kMaxNameBytes) return malformed("a name is too long");
  return key;
}

/// Elements of one byte.
void copy_bytes(const fb::Vector<std::uint8_t>* list, std::vector<std::byte>& to) {
  to.resize(size_of_list(list));
  if (!to.empty()) std::memcpy(to.data(), list->Data(), to.size());
}

void read_payload(const wire::Report& from, InlinePayload& to) {
  to.whole = from.has_payload();
  copy_bytes(from.payload(), to.bytes);
  to.ranks.resize(size_of_list(from.payload_ranks()));
  copy_elements(from.payload_ranks(), 0, to.ranks);
}

Status read_report(const wire::Report& from, Report& to) {
  to.ordinal = from.ordinal();
  to.slot = from.slot();
  to.rank = from.rank();
  RONDE_ASSIGN_OR_RETURN(to.code, code_of(from.code()));
  copy_text(from.message(), to.message);
  to.weight = from.weight();
  read_payload(from, to.payload);
  if ((from.request() == nullptr) == (to.slot < 0)) return malformed("a report needs one request");
  if (from.request() != nullptr) {
    RONDE_ASSIGN_OR_RETURN(to.request, read_request(*from.request()));
    if (to.request->name.empty() == (to.ordinal == 0)) return malformed("a report needs a key");
  }
  return {};
}

/// None where there is no table.
Result<BlockedRank> read_blocked(const wire::BlockedRank* from) {
  BlockedRank to;
  if (from == nullptr) return to;
  to.rank = from->rank();
  RONDE_ASSIGN_OR_RETURN(to.key, read_key(from->key()));
  if (from->kind() >= kCollectiveCount) return malformed("unknown collective");
  to.kind = static_cast<Collective>(from->kind());
  to.site = text_of(from->site());
  if (to.rank < 0) return malformed("a blocked rank without a rank");
  for (std::size_t i = 0; i < size_of_list(from->others()); ++i) {
    RONDE_ASSIGN_OR_RETURN(OpKey key, read_key(from->others()->Get(static_cast<fb::uoffset_t>(i))));
    to.others.push_back(std::move(key));
  }
  return to;
}

Result<StallFact> read_fact(const wire::StallFact& from) {
  StallFact to;
  RONDE_ASSIGN_OR_RETURN(to.key, read_key(from.key()));
  to.kind = from.kind();  // NOLINT(bugprone-signed-char-misuse): -1 is none
  if (to.kind < -1 || to.kind >= kCollectiveCount) return malformed("unknown collective");
  if (from.missing() != nullptr) to.missing.assign(from.missing()->begin(), from.missing()->end());
  to.waited_ms = from.waited_ms();
  RONDE_ASSIGN_OR_RETURN(to.blocked, read_blocked(from.blocked()));
  return to;
}

Status read_lists(const wire::Tick& from, TickFrame& to) {
  for (std::size_t i = 0; i < size_of_list(from.reports()); ++i) {
    RONDE_RETURN_IF_ERROR(read_report(*from.reports()->Get(static_cast<fb::uoffset_t>(i)),
                                      to.reports.emplace_back()));
  }
  for (std::size_t i = 0; i < size_of_list(from.notices()); ++i) {
    const wire::Notice& notice = *from.notices()->Get(static_cast<fb::uoffset_t>(i));
    RONDE_ASSIGN_OR_RETURN(OpKey key, read_key(notice.key()));
    to.notices.push_back({std::move(key), text_of(notice.message())});
  }
  for (std::size_t i = 0; i < size_of_list(from.overdue()); ++i) {
    const wire::Overdue& overdue = *from.overdue()->Get(static_cast<fb::uoffset_t>(i));
    RONDE_ASSIGN_OR_RETURN(OpKey key, read_key(overdue.key()));
    to.overdue.push_back({std::move(key), overdue.fatal(), overdue.asks()});
  }
  for (std::size_t i = 0; i < size_of_list(from.facts()); ++i) {
    RONDE_ASSIGN_OR_RETURN(StallFact fact,
                           read_fact(*from.facts()->Get(static_cast<fb::uoffset_t>(i))));
    to.facts.push_back(std::move(fact));
  }
  return {};
}

Status read_tick(const wire::Tick& from, TickFrame& to) {
  to.clear();
  to.acked = from.acked();
  to.first_word = from.first_word();
  to.words.resize(size_of_list(from.words()));
  copy_elements(from.words(), 0, to.words);
  to.query = from.query();
  to.last_joined = from.last_joined();
  to.leaver = from.leaver();
  to.farewell = text_of(from.farewell());
  return read_lists(from, to);
}

Status read_item(const wire::Item& from, BatchItem& to) {
  to.slot = from.slot();
  to.ordinal = from.ordinal();
  copy_text(from.name(), to.name);
  to.kind = static_cast<Collective>(from.kind());
  RONDE_ASSIGN_OR_RETURN(to.code, code_of(from.code()));
  copy_text(from.message(), to.message);
  to.last_joined = from.last_joined();
  to.leaver = from.leaver();
  to.early = from.early();
  to.weight = from.weight();
  copy_bytes(from.result(), to.result);
  if (from.kind() >= kCollectiveCount) return malformed("unknown collective");
  if (from.request() != nullptr) {
    RONDE_ASSIGN_OR_RETURN(to.request, read_request(*from.request()));
    if (to.request->name.empty() == (to.ordinal == 0)) return malformed("an item needs a key");
  }
  const bool fails = to.code != Code::kOk;
  const bool joins = to.last_joined >= 0;
  const bool agrees = to.request != nullptr || to.slot >= 0;
  const bool closes = to.leaver >= 0;
  if (fails + joins + agrees + closes != 1) return malformed("an item must say exactly one thing");
  if (fails && to.name.empty() == (to.ordinal == 0)) return malformed("an item needs a key");
  return {};
}

Status read_batch(const wire::Batch& from, BatchFrame& to) {
  to.clear();
  to.sequence = from.sequence();
  to.released = from.released();
  if (from.launches() != nullptr) {
    to.launches.assign(from.launches()->begin(), from.launches()->end());
  }
  if (from.order() != nullptr) to.order.assign(from.order()->begin(), from.order()->end());
  if (from.priorities() != nullptr) {
    to.priorities.assign(from.priorities()->begin(), from.priorities()->end());
    if (to.priorities.size() != to.order.size()) return malformed("not a priority for each entry");
  }
  for (std::size_t i = 0; i < size_of_list(from.items()); ++i) {
    RONDE_RETURN_IF_ERROR(
        read_item(*from.items()->Get(static_cast<fb::uoffset_t>(i)), to.items.emplace_back()));
  }
  for (const std::int32_t entry : to.order) {
    if (entry < 0 && static_cast<std::size_t>(-1 - entry) >= to.items.size()) {
      return malformed("the order names an item that is not there");
    }
  }
  return {};
}

Status read_query(const wire::Query& from, QueryFrame& to) {
  to = {};
  to.query = from.query();
  for (std::size_t i = 0; i < size_of_list(from.keys()); ++i) {
    RONDE_ASSIGN_OR_RETURN(OpKey key, read_key(from.keys()->Get(static_cast<fb::uoffset_t>(i))));
    to.keys.push_back(std::move(key));
  }
  return {};
}

void read_warning(const wire::Warning& from, WarningFrame& to) {
  to = {};
  for (std::size_t i = 0; i < size_of_list(from.texts()); ++i) {
    to.texts.push_back(from.texts()->Get(static_cast<fb::uoffset_t>(i))->str());
  }
}

}  // namespace

Status out_of_protocol(std::string_view what) {
  return Status(Code::kInvalidArgument, fmt::format("frame out of protocol: {}", what));
}

BatchItem early_failure(const OpKey& key, Collective kind, Code code, std::string message) {
  BatchItem item;
  item.name = key.name;
  item.ordinal = key.ordinal;
  item.kind = kind;
  item.code = code;
  item.message = std::move(message);
  item.early = true;
  return item;
}

void TickFrame::clear() {
  acked = 0;
  first_word = 0;
  words.clear();
  reports.clear();
  notices.clear();
  overdue.clear();
  query = 0;
  facts.clear();
  last_joined = -1;
  leaver = -1;
  farewell.clear();
}

void BatchFrame::clear() {
  sequence = 0;
  order.clear();
  items.clear();
  priorities.clear();
  released = 0;
  launches.clear();
}

bool BatchFrame::changes_cache() const noexcept {
  return std::ranges::any_of(
      items, [](const BatchItem& item) { return item.request != nullptr && item.slot >= 0; });
}

void BatchFrame::push(std::int32_t entry, std::int32_t priority) {
  if (priority != 0 && priorities.empty()) priorities.resize(order.size());
  order.push_back(entry);
  if (!priorities.empty() || priority != 0) priorities.push_back(priority);
}

FrameReader::FrameReader() = default;
FrameReader::~FrameReader() = default;

Result<FrameKind> FrameReader::read(std::span<const std::byte> frame) {
  if (frame.empty() || frame.size() > kMaxNegotiationFrameBytes) return malformed("length");
  const std::byte* data = frame.data();
  if (reinterpret_cast<std::uintptr_t>(data) % alignof(std::uint64_t) != 0) {
    aligned_.resize(frame.size() / sizeof(std::uint64_t) + 1);
    std::memcpy(aligned_.data(), data, frame.size());
    data = reinterpret_cast<const std::byte*>(aligned_.data());
  }
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(data);
  fb::Verifier verifier(bytes, frame.size());
  if (!wire::VerifySizePrefixedFrameBuffer(verifier)) return malformed("it does not verify");
  const wire::Frame& root = *wire::GetSizePrefixedFrame(bytes);
  switch (root.body() == nullptr ? wire::Body_NONE : root.body_type()) {
    case wire::Body_Tick:
      RONDE_RETURN_IF_ERROR(read_tick(*root.body_as_Tick(), tick));
      return FrameKind::kTick;
    case wire::Body_Batch:
      RONDE_RETURN_IF_ERROR(read_batch(*root.body_as_Batch(), batch));
      return FrameKind::kBatch;
    case wire::Body_Query:
      RONDE_RETURN_IF_ERROR(read_query(*root.body_as_Query(), query));
      return FrameKind::kQuery;
    case wire::Body_Warning:
      read_warning(*root.body_as_Warning(), warning);
      return FrameKind::kWarning;
    default:
      return malformed("unknown kind");
  }
}

}  // namespace ronde
