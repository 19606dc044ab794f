#include "core/protocol/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/wire_codec.h"
#include "core/protocol/inline_payload.h"
#include "core/protocol/wire.h"

namespace ronde {
namespace {

// A batch is cut at this size. The largest item still fits on top.
constexpr std::size_t kBatchCutBytes =
    kMaxNegotiationFrameBytes - kMaxRequestBytes - kMaxPayloadBytes - (64 << 10);

/// The sum of weights must divide.
Status check_weights(const Report& report) {
  if (!report.request->weight || (std::isfinite(report.weight) && report.weight > 0.0)) return {};
  const char* const why = report.weight == 0.0
                              ? "the weights of all ranks are 0; allowed: at least "
                                "one above 0"
                              : "the sum of all ranks' weights is not finite";
  return {Code::kInvalidArgument,
          fmt::format("{}: {}", label(report.request->kind, report.key()), why)};
}

/// The report of an entry of Completed::order that is no slot.
const Report& report_at(const Completed& completed, std::int32_t entry) {
  return completed.reports[static_cast<std::size_t>(-1 - entry)];
}

/// True if the item tells no more than a slot in the batch's order does.
bool is_cached_name(const BatchItem& item) {
  return item.code == Code::kOk && item.last_joined < 0 && item.leaver < 0 &&
         item.request == nullptr && item.ordinal == 0 && item.weight == 0.0 && item.result.empty();
}

}  // namespace

void Coordinator::agree() {
  if (is_closed()) return;
  const bool joins = subtree_.all_joined();
  if (subtree_.completed().order.empty() && !joins) return close_batch();
  std::swap(ready_, subtree_.completed());
  sort_by_priority();
  built_.items.reserve(ready_.order.size());
  for (const std::int32_t entry : ready_.order) {
    const std::int32_t priority = priority_of(entry);
    if (entry >= 0) {
      append_cached(entry, priority);
    } else {
      append(decide(report_at(ready_, entry)), priority);
    }
  }
  ready_.clear();
  if (joins) {
    BatchItem item;
    item.last_joined = subtree_.last_joined();
    append(std::move(item));
  }
  close_batch();
}

std::int32_t Coordinator::priority_of(std::int32_t entry) const {
  if (entry >= 0) {
    const OwnOperation* own = own_.find(entry);
    return own == nullptr ? cache_.at(entry)->priority : own->request.priority;
  }
  const Report& report = report_at(ready_, entry);
  const OwnOperation* own = own_.find(report.key());
  return own == nullptr ? report.request->priority : own->request.priority;
}

void Coordinator::sort_by_priority() {
  std::vector<std::int32_t>& order = ready_.order;
  if (order.size() < 2) return;
  const auto before = [&](std::int32_t a, std::int32_t b) {
    return priority_of(a) > priority_of(b);
  };
  if (std::is_sorted(order.begin(), order.end(), before)) return;
  std::stable_sort(order.begin(), order.end(), before);
}

BatchItem Coordinator::decide(const Report& report) const {
  BatchItem item;
  item.ordinal = report.ordinal;
  const Status status =
      report.code != Code::kOk ? Status(report.code, report.message) : check_weights(report);
  if (!status.ok()) {
    item.name = report.request->name;
    item.kind = report.request->kind;
    item.code = status.code();
    item.message = status.message();
    return item;
  }
  item.weight = report.weight;
  if (payloads_ != nullptr) {
    item.result = combine(report.payload, *report.request, node_.members, *payloads_);
  }
  name_request(report, item);
  return item;
}

/// By its slot, or in full.
void Coordinator::name_request(const Report& report, BatchItem& item) const {
  const Request& request = *report.request;
  const int known = cache_.find(request);
  if (known >= 0 && stands_for(*cache_.at(known), request)) {
    item.slot = known;
    return;
  }
  item.slot = cache_.choose(request, [&](int slot) { return !subtree_.is_pending(slot); });
  item.request = report.request;
}

void Coordinator::append_cached(int slot, std::int32_t priority) {
  building_.push(slot, priority);
  building_bytes_ += sizeof(slot) + sizeof(priority);
  applier_.apply(slot, priority, built_);
  if (building_bytes_ > kBatchCutBytes) close_batch();
}

void Coordinator::append(BatchItem item, std::int32_t priority) {
  if (is_cached_name(item)) return append_cached(item.slot, priority);
  applier_.apply(item, priority, built_);
  building_bytes_ += wire_bytes(item) + sizeof(priority);
  building_.items.push_back(std::move(item));
  building_.push(-static_cast<std::int32_t>(building_.items.size()), priority);
  if (building_bytes_ > kBatchCutBytes) close_batch();
}

void Coordinator::close_batch() {
  if (building_.order.empty() && building_.released == 0 && building_.launches.empty()) return;
  building_.sequence = applier_.sequence() + 1;
  built_.released = building_.released;
  built_.launches = building_.launches;
  sender_.send_down(building_);
  building_.clear();
  building_bytes_ = 0;
  applier_.finish(std::exchange(built_, {}));
}

void Coordinator::close_set(int leaver, std::string_view why) {
  if (is_closed()) return;
  agree();
  BatchItem item;
  item.leaver = leaver;
  item.message = why;
  append(std::move(item));
  close_batch();
}

}  // namespace ronde
