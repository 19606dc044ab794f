#include "ops/device/device_times.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/clock.h"

namespace ronde {
namespace {

constexpr std::size_t kMostPoints = 256;
constexpr std::int64_t kLongestNs = 1'000'000'000;  // in which clocks drift apart by little
constexpr std::size_t kMostRuns = 64;               // that wait to be reported
constexpr std::int64_t kAnchorEveryNs = 100'000'000;
constexpr std::int64_t kLongNs = std::int64_t{4} << 30;  // beyond, CUDA rounds by over 250 ns

std::int64_t host_ns() { return to_ns(now()); }

/// True if the event has been reached, or never will be.
bool is_over(const DeviceEvent& event) {
  const auto reached = event.reached();
  return !reached.ok() || *reached;
}

}  // namespace

void DeviceClock::take(std::int64_t device_ns, std::int64_t queued_ns, std::int64_t seen_ns) {
  while (!bounds_.empty() &&
         (bounds_.size() == kMostPoints || bounds_.front().device_ns < device_ns - kLongestNs)) {
    bounds_.pop_front();
  }
  bounds_.push_back({device_ns, queued_ns - device_ns, seen_ns - device_ns});
}

std::int64_t DeviceClock::host_ns(std::int64_t device_ns) const {
  Bounds all{.least_ns = std::numeric_limits<std::int64_t>::min(),
             .most_ns = std::numeric_limits<std::int64_t>::max()};
  for (const Bounds& one : bounds_) {
    all.least_ns = std::max(all.least_ns, one.least_ns);
    all.most_ns = std::min(all.most_ns, one.most_ns);
  }
  return device_ns + std::min(all.least_ns, all.most_ns);
}

DeviceTimes::DeviceTimes(std::shared_ptr<DeviceOps> device, std::string track)
    : device_(std::move(device)), track_(std::move(track)) {}

/// True if there is an anchor that is new enough.
bool DeviceTimes::renew_anchor() {
  const std::int64_t queued_ns = host_ns();
  if (anchor_.event && queued_ns - anchor_.queued_ns < kAnchorEveryNs) return true;
  if (idle_ == nullptr) {
    const auto opened = device_->open_stream();
    if (!opened.ok()) return false;
    idle_ = *opened;
  }
  auto event = device_->record(idle_, EventUse::kTime);
  if (!event.ok()) return false;
  anchor_ = {{}, std::move(*event), queued_ns};
  return true;
}

void DeviceTimes::begin(DeviceStream stream, std::uint64_t bundle) {
  open_ = renew_anchor();
  if (!open_) return;
  if (runs_.size() == kMostRuns) runs_.pop_front();
  runs_.push_back({bundle, anchor_, {}});
  add_mark(stream, {});
}

void DeviceTimes::end_phase(DeviceStream stream, std::string_view phase) {
  if (open_) add_mark(stream, phase);
}

void DeviceTimes::add_mark(DeviceStream stream, std::string_view phase) {
  const std::int64_t queued_ns = host_ns();
  auto event = device_->record(stream, EventUse::kTime);
  if (!event.ok()) {  // the work itself will say what is wrong
    open_ = false;
    return runs_.pop_back();
  }
  runs_.back().marks.push_back({std::string(phase), std::move(*event), queued_ns});
}

bool DeviceTimes::has_ended(const Run& run) {
  return is_over(*run.marks.back().event) && is_over(*run.anchor.event);
}

/// The marks by the device's clock, the anchor's first; false if the device gives no times.
bool DeviceTimes::read(const Run& run, std::vector<std::int64_t>& device_ns) {
  if (!last_anchor_) last_anchor_ = run.anchor.event;
  const auto since_last = run.anchor.event->ns_since(*last_anchor_);
  if (!since_last.ok()) return false;
  if (*since_last > kLongNs) clock_.clear();
  last_anchor_ns_ += *since_last;
  last_anchor_ = run.anchor.event;
  device_ns.push_back(last_anchor_ns_);
  for (const Mark& mark : run.marks) {
    const auto passed = mark.event->ns_since(*run.anchor.event);
    if (!passed.ok()) return false;
    device_ns.push_back(last_anchor_ns_ + *passed);
  }
  return true;
}

void DeviceTimes::report_run(const Run& run, EventSink& events) {
  const std::int64_t seen_ns = host_ns();
  std::vector<std::int64_t> device_ns;
  if (!read(run, device_ns)) {
    last_anchor_.reset();
    return clock_.clear();
  }
  clock_.take(device_ns[0], run.anchor.queued_ns, seen_ns);
  for (std::size_t i = 0; i < run.marks.size(); ++i) {
    clock_.take(device_ns[i + 1], run.marks[i].queued_ns, seen_ns);
  }
  for (std::size_t i = 1; i < run.marks.size(); ++i) {
    const std::int64_t start_ns = std::max(reported_ns_, clock_.host_ns(device_ns[i]));
    reported_ns_ = std::max(start_ns, clock_.host_ns(device_ns[i + 1]));
    events.span(track_, run.marks[i].phase, {start_ns, reported_ns_}, {.bundle = run.bundle});
  }
}

void DeviceTimes::report(EventSink& events) {
  while (!runs_.empty() && !runs_.front().marks.empty() && has_ended(runs_.front())) {
    report_run(runs_.front(), events);
    runs_.pop_front();
  }
}

}  // namespace ronde
