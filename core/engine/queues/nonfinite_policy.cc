#include "core/engine/queues/nonfinite_policy.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "core/base/log.h"
#include "core/protocol/request.h"

namespace ronde {
namespace {

/// A tensor that stays bad is told of this often.
constexpr std::chrono::seconds kBetweenWarnings{10};

std::string place_of(const Operation& operation, std::string_view tensor) {
  const NonfiniteFinding& finding = operation.finding();
  const auto& tensors = operation.submission().request.tensors;
  std::string place = fmt::format("element {}", finding.odd.element);
  if (tensors.size() > 1) place += fmt::format(" of tensor {}", finding.tensor);
  if (!tensor.empty()) place += fmt::format(" ({})", tensor);
  place += fmt::format(", {}{}", to_string(tensors[finding.tensor].dtype),
                       to_string(tensors[finding.tensor].shape));
  return place;
}

/// A NaN has a sign, which tells nothing.
std::string text_of(double value) { return std::isnan(value) ? "NaN" : fmt::to_string(value); }

std::string_view result_of(ReduceOp op) { return op == ReduceOp::kProduct ? "product" : "sum"; }

}  // namespace

Status NonfinitePolicy::judge(const Operation& operation, std::string_view tensor,
                              std::string_view outcome) const {
  const NonfiniteFinding& finding = operation.finding();
  const Request& request = operation.submission().request;
  const std::string place = place_of(operation, tensor);
  std::string text =
      finding.odd.rank >= 0
          ? fmt::format("rank {} put in {} at {}", finding.odd.rank, text_of(finding.odd.value),
                        place)
          : fmt::format("the {} overflowed to {} at {}, where all ranks' inputs are finite",
                        result_of(request.op), text_of(finding.odd.value), place);
  if (steps() > 0) text += fmt::format("; step {}", operation.steps_before() + 1);
  if (!outcome.empty()) text += fmt::format("; {}", outcome);
  const Status status = Status(Code::kNonfinite, text).with_context(described(request));
  if (finding.reports) mark(status.message());
  if (options_.fails) return status;
  if (finding.reports) warn(operation, status.message());
  return {};
}

void NonfinitePolicy::mark(const std::string& text) const {
  EventSink* const events = options_.events == nullptr ? nullptr : options_.events->get();
  if (events != nullptr) events->instant(kMarksTrack, text);
}

void NonfinitePolicy::warn(const Operation& operation, const std::string& text) const {
  const std::string& name = operation.submission().request.name;
  std::string more;
  {
    const MutexLock lock(mutex_);
    const auto [known, is_new] = told_.try_emplace(name);
    Told& told = known->second;
    if (!is_new && now() - told.last < kBetweenWarnings) {
      ++told.untold;
      return;
    }
    if (told.untold > 0) more = fmt::format(" ({} more since the last warning)", told.untold);
    told = {now(), 0};
  }
  log(LogLevel::kWarning, "{}{}", text, more);
}

}  // namespace ronde
