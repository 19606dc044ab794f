#include "core/protocol/frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ronde {

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

}  // namespace ronde
