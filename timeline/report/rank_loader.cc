#include "timeline/report/rank_loader.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "core/ports/event_sink.h"
#include "timeline/recording/machine_probe.h"
#include "timeline/recording/trace_format.h"

namespace ronde::report {
namespace {

constexpr std::uint64_t kOwnKeys = std::uint64_t{1} << 63;  // keys above all numbers of bundles

Path path_of(const TraceEvent& event) {
  return {.collective = event.collective,
          .event = std::string(event.name),
          .algorithm = std::string(event.algorithm),
          .backend = std::string(event.backend)};
}

}  // namespace

void RankLoader::name_lane(const TraceEvent& event) {
  Lane& lane = lanes_[event.tid];
  lane.name = job_.names.number_of(event.given_name);
  if (event.given_name.find('.') == std::string_view::npos) lane.kind = LaneKind::kOther;
  if (event.given_name == kMarksTrack) lane.kind = LaneKind::kMarks;
  if (event.given_name == kPassesTrack) lane.kind = LaneKind::kPasses;
  if (event.given_name == kWaitTrack) lane.kind = LaneKind::kWaits;
}

void RankLoader::take_counter(const TraceEvent& event) {
  if (event.name == kCoreWaitCounter) {
    rank_.core_waits.push_back({event.time_ns, std::llround(event.value * 1e6)});
    return;
  }
  if (event.name == kMemoryCopyCounter) {
    rank_.memory_gbps = event.value;
    return;
  }
  if (event.name == kFp16CodingCounter) rank_.coding.fp16_ns = event.value;
  if (event.name == kInt8CodingCounter) rank_.coding.int8_ns = event.value;
  if (event.name != kStepCounter || event.value < 1) return;
  rank_.steps.push_back({static_cast<std::uint64_t>(event.value), event.time_ns});
}

void RankLoader::take(const TraceEvent& event) {
  if (event.phase == 'M') {
    if (event.name == "thread_name") name_lane(event);
    return;
  }
  if (rank_.last_ns == 0) rank_.first_ns = event.time_ns;
  rank_.last_ns = std::max(rank_.last_ns, event.time_ns);
  if (event.phase == 'C') return take_counter(event);
  if (event.phase == 'i' && event.name == kPauseMark) begin_pause(event.time_ns);
  if (event.phase == 'i' && event.name == kResumeMark) {
    forget_open();  // late events of threads that had not seen the pause
    end_pause(event.time_ns);
  }
  rank_.lost_events = std::max(rank_.lost_events, event.lost);
  if (event.phase != 'B' && event.phase != 'E') return;
  Lane& lane = lanes_[event.tid];
  if (lane.kind == LaneKind::kOther) return;
  return lane.kind == LaneKind::kTensor ? take_tensor(lane, event) : take_span(lane, event);
}

void RankLoader::take_span(Lane& lane, const TraceEvent& event) {
  if (event.phase == 'B') {
    lane.open.push_back({.name = job_.names.number_of(event.name),
                         .start_ns = event.time_ns,
                         .is_pass = lane.kind == LaneKind::kPasses});
    return;
  }
  if (lane.open.empty()) return;
  NamedSpan span = lane.open.back();
  lane.open.pop_back();
  span.end_ns = event.time_ns;
  (lane.kind == LaneKind::kWaits ? rank_.waits : rank_.marks).push_back(span);
}

void RankLoader::take_tensor(Lane& lane, const TraceEvent& event) {
  if (event.phase == 'E') {
    return lane.running != 0 ? end_run(lane, event) : end_negotiation(lane, event);
  }
  if (!event.submits()) return begin_run(lane, event);
  lane.submit_ns = event.time_ns;
  lane.agreed_ns = 0;
  lane.bytes = event.bytes;
  lane.barrier = event.collective == Collective::kBarrier;
}

/// A key for work outside of bundles: the lane's k-th run.
std::uint64_t RankLoader::own_key(const Lane& lane) const {
  const std::size_t hash = std::hash<std::string>()(job_.names.text_of(lane.name));
  return kOwnKeys | (hash + lane.runs);
}

void RankLoader::end_negotiation(Lane& lane, const TraceEvent& event) {
  if (lane.submit_ns == 0) return;
  lane.agreed_ns = event.time_ns;
  if (!lane.barrier) return;
  OperationSpan span;
  ++lane.runs;
  span.bundle = own_key(lane);
  span.first_submit_ns = span.last_submit_ns = lane.submit_ns;
  span.agreed_ns = span.start_ns = span.end_ns = event.time_ns;
  span.name = lane.name;
  const CollectiveTraits& barrier = traits_of(Collective::kBarrier);
  span.path = job_.number_of({.collective = barrier.value, .event = std::string(barrier.event())});
  rank_.operations.push_back(span);
}

void RankLoader::begin_run(Lane& lane, const TraceEvent& event) {
  if (lane.open_runs++ == 0) {
    ++lane.runs;
    lane.running = event.bundle != 0 ? event.bundle : own_key(lane);
    lane.run_start_ns = event.time_ns;
  }
  OpenBundle& open = bundles_[lane.running];
  OperationSpan& span = open.span;
  const std::int64_t submit = lane.submit_ns != 0 ? lane.submit_ns : event.time_ns;
  const std::int64_t agreed = lane.agreed_ns != 0 ? lane.agreed_ns : event.time_ns;
  if (open.begun++ == 0) {
    span = {.bundle = lane.running,
            .first_submit_ns = submit,
            .last_submit_ns = submit,
            .agreed_ns = agreed,
            .start_ns = event.time_ns,
            .bytes = event.bytes,
            .tensors = static_cast<std::uint32_t>(event.tensors),
            .name = lane.name,
            .path = job_.number_of(path_of(event))};
  }
  span.first_submit_ns = std::min(span.first_submit_ns, submit);
  span.last_submit_ns = std::max(span.last_submit_ns, submit);
  span.agreed_ns = std::max(span.agreed_ns, agreed);
}

/// Counts an operation's negotiation and bytes once, even if its tensors run in several bundles.
void RankLoader::add_cost(Lane& lane, std::int64_t end_ns) {
  TensorCost& cost = job_.tensors[lane.name];
  cost.execution_ns += end_ns - lane.run_start_ns;
  if (lane.counted_submit_ns == lane.submit_ns && lane.submit_ns != 0) return;
  lane.counted_submit_ns = lane.submit_ns;
  ++cost.count;
  cost.bytes += lane.bytes;
  if (lane.submit_ns != 0) cost.negotiation_ns += lane.agreed_ns - lane.submit_ns;
}

void RankLoader::end_run(Lane& lane, const TraceEvent& event) {
  const auto found = bundles_.find(lane.running);
  if (--lane.open_runs == 0) {
    add_cost(lane, event.time_ns);
    lane.running = 0;
  }
  if (found == bundles_.end()) return;
  OperationSpan& span = found->second.span;
  if (span.end_ns == 0) span.end_ns = event.time_ns;
  span.pack_ns = std::max(span.pack_ns, event.pack_ns);
  span.compressed |= event.compression.wire_bytes > 0;
  if (--found->second.begun > 0) return;
  rank_.operations.push_back(span);
  bundles_.erase(found);
}

void RankLoader::note_open(const Lane& lane) {
  if (lane.kind != LaneKind::kTensor) return;
  if (lane.running != 0) {
    rank_.unfinished.push_back({lane.name, lane.run_start_ns, true});
  } else if (lane.submit_ns != 0 && lane.agreed_ns == 0) {
    rank_.unfinished.push_back({lane.name, lane.submit_ns, false});
  }
}

void RankLoader::begin_pause(std::int64_t time_ns) {
  forget_open();
  if (std::exchange(paused_, true)) return;
  rank_.pauses.push_back({.start_ns = time_ns});
}

void RankLoader::end_pause(std::int64_t time_ns) {
  if (!std::exchange(paused_, false)) return;
  rank_.pauses.back().end_ns = time_ns;
}

/// Drops pending operations at a pause, as their ends are not recorded.
void RankLoader::forget_open() {
  for (auto& [tid, lane] : lanes_) {
    lane.submit_ns = lane.agreed_ns = 0;
    lane.running = 0;
    lane.open_runs = 0;
    lane.open.clear();
  }
  bundles_.clear();
}

void RankLoader::finish() {
  end_pause(rank_.last_ns);
  for (const auto& [tid, lane] : lanes_) note_open(lane);
  const auto by_time = [](const auto& a, const auto& b) { return a.since_ns < b.since_ns; };
  std::sort(rank_.unfinished.begin(), rank_.unfinished.end(), by_time);
}

}  // namespace ronde::report
