#include "timeline/merging/merge_marks.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "timeline/merging/trace_output.h"
#include "timeline/recording/trace_head.h"

namespace ronde {
namespace {

bool is_start(const report::TraceEvent& event) { return event.phase == 'B' && event.bundle != 0; }

}  // namespace

bool is_flow(const report::TraceEvent& event) noexcept {
  return (event.phase == 's' || event.phase == 'f') && event.name == kFlowName;
}

void Flows::begin_recording(std::int64_t row, int epoch) {
  if (epoch != epoch_ || row != rank_) submitted_.clear();
  rank_ = row;
  epoch_ = epoch;
  bundles_ = &epochs_[epoch];
}

void Flows::survey(const report::TraceEvent& event, std::int64_t time_ns) {
  if (event.pid != rank_) submitted_.clear();
  rank_ = event.pid;
  if (event.submits()) submitted_[event.tid] = time_ns;
  if (!is_start(event)) return;
  Bundle& bundle = (*bundles_)[event.bundle];
  if (bundle.rank != event.pid) bundle.starts.push_back({event.pid, time_ns});
  bundle.rank = event.pid;
  const auto submission = submitted_.find(event.tid);
  if (submission == submitted_.end()) return;
  const Place place{submission->second, event.pid, event.tid};
  bundle.last = bundle.last ? std::max(*bundle.last, place) : place;
}

void Flows::end_survey() {
  std::uint64_t next = 1;
  for (auto& [epoch, bundles] : epochs_) {
    for (auto& [number, bundle] : bundles) {
      bundle.rank = -1;
      const auto starts = std::exchange(bundle.starts, {});
      const auto count = static_cast<std::uint64_t>(std::ranges::count_if(
          starts, [&one = bundle](const Start& start) { return one.leads_to(start); }));
      if (count == 0) continue;
      bundle.next_arrow = next;
      next += count;
      by_submission_.emplace(*bundle.last, ArrowRow{bundle.next_arrow, count});
    }
  }
}

const std::vector<std::uint64_t>& Flows::leaving(const report::TraceEvent& event,
                                                 std::int64_t time_ns) {
  leaving_.clear();
  if (!event.submits()) return leaving_;
  const auto [from, to] = by_submission_.equal_range({time_ns, event.pid, event.tid});
  for (auto bundle = from; bundle != to; ++bundle) {
    const auto [first, count] = bundle->second;
    for (std::uint64_t i = 0; i < count; ++i) leaving_.push_back(first + i);
  }
  return leaving_;
}

std::optional<std::uint64_t> Flows::arriving(const report::TraceEvent& event,
                                             std::int64_t time_ns) {
  if (!is_start(event)) return std::nullopt;
  const auto found = bundles_->find(event.bundle);
  if (found == bundles_->end()) return std::nullopt;
  Bundle& bundle = found->second;
  const bool first = event.pid != bundle.rank;
  bundle.rank = event.pid;
  if (!first || !bundle.leads_to({event.pid, time_ns})) return std::nullopt;
  return bundle.next_arrow++;
}

bool is_arrival(const report::TraceEvent& event) noexcept {
  return event.phase == 'i' && event.arrived.has_value();
}

void Arrivals::begin_recording(std::int64_t row, int epoch) {
  if (epoch == epoch_ && row == current_) return;
  epoch_ = epoch;
  current_ = -1;
}

void Arrivals::name_track(const report::TraceEvent& event) {
  First& first = firsts_[epoch_];
  if (first.row < 0) first.row = event.pid;
  if (event.pid == first.row) {
    first.tracks[std::string(event.given_name)] = event.tid;
    return;
  }
  if (event.pid != current_) {
    current_ = event.pid;
    tracks_.clear();
  }
  const auto found = first.tracks.find(std::string(event.given_name));
  if (found != first.tracks.end()) tracks_[event.tid] = found->second;
}

void Arrivals::take(const report::TraceEvent& event, std::int64_t time_ns, TraceOutput& output) {
  if (event.pid == kJobRow) return;
  if (event.phase == 'M') {
    if (event.name == "thread_name") name_track(event);
    return;
  }
  if (event.pid != current_ || !event.submits()) return;
  const auto track = tracks_.find(event.tid);
  if (track == tracks_.end()) return;
  const std::int64_t first = firsts_[epoch_].row;
  name_ = fmt::format("{} {} ready", epoch_ > 0 ? "worker" : "rank", event.pid);
  text_.clear();
  text_ += fmt::format(
      "{{\"ph\":\"i\",\"pid\":{},\"tid\":{},\"ts\":0,\"name\":\"{}\",\"s\":\"t\","
      "\"args\":{{\"arrived\":{}}}}}",
      first, track->second, name_, event.pid);
  report::TraceEvent mark;
  mark.phase = 'i';
  mark.pid = first;
  mark.tid = track->second;
  mark.at_ns = time_ns;
  mark.timed = true;
  mark.name = name_;
  mark.arrived = event.pid;
  output.add({text_, mark, time_ns});
}

}  // namespace ronde
