#include "timeline/report/rank_loader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
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

/// The rank at the end of such a track's name; nothing if the name does not begin with `prefix`.
std::optional<int> peer_of(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  int peer = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), peer);
  const bool whole = error == std::errc() && end == name.data() + name.size();
  return whole ? std::optional(peer) : std::nullopt;
}

}  // namespace

void RankLoader::name_track(const TraceEvent& event) {
  Track& track = tracks_[event.tid];
  track.name = job_.names.number_of(event.given_name);
  if (event.given_name.find('.') == std::string_view::npos) track.kind = TrackKind::kOther;
  if (event.given_name == kMarksTrack) track.kind = TrackKind::kMarks;
  if (event.given_name == kPassesTrack) track.kind = TrackKind::kPasses;
  if (event.given_name == kWaitTrack) track.kind = TrackKind::kWaits;
  if (event.given_name == kRecoveryTrack) track.kind = TrackKind::kTransitions;
  if (event.given_name == kConnectionsTrack) track.kind = TrackKind::kOutages;
  for (const bool is_send : {true, false}) {
    const auto peer = peer_of(event.given_name, is_send ? kSendTrack : kRecvTrack);
    if (!peer) continue;
    track.kind = TrackKind::kMessages;
    track.message = {.peer = *peer, .is_send = is_send};
  }
}

void RankLoader::take_counter(const TraceEvent& event) {
  const TotalSample total{event.at_ns, std::llround(event.value * 1e6)};
  if (event.name == kCoreWaitCounter) rank_.core_waits.push_back(total);
  if (event.name == kCpuCounter) rank_.cpu.push_back(total);
  if (event.name == kMemoryCopyCounter) rank_.memory_gbps = event.value;
  if (event.name == kFp16CodingCounter) rank_.coding.fp16_ns = event.value;
  if (event.name == kInt8CodingCounter) rank_.coding.int8_ns = event.value;
  if (event.value < 1) return;
  const StepMark mark{static_cast<std::uint64_t>(event.value), event.at_ns};
  if (event.name == kStepCounter) rank_.steps.push_back(mark);
  if (event.name == kCommitCounter) rank_.commits.push_back(mark);
}

void RankLoader::take(const TraceEvent& event) {
  if (event.phase == 'M') {
    if (event.name == "thread_name") name_track(event);
    return;
  }
  if (rank_.last_ns == 0) rank_.first_ns = event.at_ns;
  rank_.last_ns = std::max(rank_.last_ns, event.at_ns);
  if (event.phase == 'C') return take_counter(event);
  if (event.phase == 'i' && event.name == kEpochEndMark) end_epoch();
  if (event.phase == 'i' && event.name == kPauseMark) begin_pause(event.at_ns);
  if (event.phase == 'i' && event.name == kResumeMark) {
    forget_open();  // late events of threads that had not seen the pause
    end_pause(event.at_ns);
  }
  rank_.lost_events = std::max(rank_.lost_events, event.lost);
  if (event.phase != 'B' && event.phase != 'E') return;
  Track& track = tracks_[event.tid];
  if (track.kind == TrackKind::kOther) return;
  if (track.kind == TrackKind::kMessages) return take_message(track, event);
  return track.kind == TrackKind::kTensor ? take_tensor(track, event) : take_span(track, event);
}

void RankLoader::take_span(Track& track, const TraceEvent& event) {
  if (event.phase == 'B') {
    track.open.push_back({.name = job_.names.number_of(event.name),
                          .start_ns = event.at_ns,
                          .is_pass = track.kind == TrackKind::kPasses,
                          .is_message = event.name == kMessageWaitSpan});
    return;
  }
  if (track.open.empty()) return;
  NamedSpan span = track.open.back();
  track.open.pop_back();
  span.end_ns = event.at_ns;
  spans_of(track.kind).push_back(span);
}

void RankLoader::take_message(Track& track, const TraceEvent& event) {
  (event.phase == 'B' ? track.message.start_ns : track.message.end_ns) = event.at_ns;
  if (event.phase == 'E') rank_.messages.push_back(track.message);
}

std::vector<NamedSpan>& RankLoader::spans_of(TrackKind kind) {
  if (kind == TrackKind::kTransitions) return rank_.transitions;
  if (kind == TrackKind::kOutages) return rank_.outages;
  return kind == TrackKind::kWaits ? rank_.waits : rank_.marks;
}

void RankLoader::take_tensor(Track& track, const TraceEvent& event) {
  if (event.phase == 'E') {
    return track.running != 0 ? end_run(track, event) : end_negotiation(track, event);
  }
  if (!event.submits()) return begin_run(track, event);
  track.submit_ns = event.at_ns;
  track.agreed_ns = 0;
  track.bytes = event.bytes;
  track.barrier = event.collective == Collective::kBarrier;
}

/// A key for work outside of bundles: the track's k-th run.
std::uint64_t RankLoader::own_key(const Track& track) const {
  const std::size_t hash = std::hash<std::string>()(job_.names.text_of(track.name));
  return kOwnKeys | (hash + track.runs);
}

void RankLoader::end_negotiation(Track& track, const TraceEvent& event) {
  if (track.submit_ns == 0) return;
  track.agreed_ns = event.at_ns;
  if (!track.barrier) return;
  OperationSpan span;
  ++track.runs;
  span.bundle = own_key(track);
  span.first_submit_ns = span.last_submit_ns = track.submit_ns;
  span.agreed_ns = span.start_ns = span.end_ns = event.at_ns;
  span.name = track.name;
  const CollectiveTraits& barrier = traits_of(Collective::kBarrier);
  span.path = job_.number_of({.collective = barrier.value, .event = std::string(barrier.event())});
  rank_.operations.push_back(span);
}

void RankLoader::begin_run(Track& track, const TraceEvent& event) {
  if (track.open_runs++ == 0) {
    ++track.runs;
    track.running = event.bundle != 0 ? event.bundle : own_key(track);
    track.run_start_ns = event.at_ns;
  }
  OpenBundle& open = bundles_[track.running];
  OperationSpan& span = open.span;
  const std::int64_t submit = track.submit_ns != 0 ? track.submit_ns : event.at_ns;
  const std::int64_t agreed = track.agreed_ns != 0 ? track.agreed_ns : event.at_ns;
  if (open.begun++ == 0) {
    span = {.bundle = track.running,
            .first_submit_ns = submit,
            .last_submit_ns = submit,
            .agreed_ns = agreed,
            .start_ns = event.at_ns,
            .bytes = event.bytes,
            .tensors = static_cast<std::uint32_t>(event.tensors),
            .name = track.name,
            .path = job_.number_of(path_of(event))};
  }
  span.first_submit_ns = std::min(span.first_submit_ns, submit);
  span.last_submit_ns = std::max(span.last_submit_ns, submit);
  span.agreed_ns = std::max(span.agreed_ns, agreed);
}

/// Counts an operation's negotiation and bytes once, even if its tensors run in several bundles.
void RankLoader::add_cost(Track& track, std::int64_t end_ns) {
  const bool counted = track.counted_submit_ns == track.submit_ns && track.submit_ns != 0;
  track.counted_submit_ns = track.submit_ns;
  const auto add = [&](TensorCost& cost) {
    cost.execution_ns += end_ns - track.run_start_ns;
    if (counted) return;
    ++cost.count;
    cost.bytes += track.bytes;
    if (track.submit_ns != 0) cost.negotiation_ns += track.agreed_ns - track.submit_ns;
  };
  add(job_.tensors[track.name]);
  if (rank_.steps.empty()) add(job_.start_up_tensors[track.name]);
}

void RankLoader::end_run(Track& track, const TraceEvent& event) {
  const auto found = bundles_.find(track.running);
  if (--track.open_runs == 0) {
    add_cost(track, event.at_ns);
    track.running = 0;
  }
  if (found == bundles_.end()) return;
  OperationSpan& span = found->second.span;
  if (span.end_ns == 0) span.end_ns = event.at_ns;
  span.pack_ns = std::max(span.pack_ns, event.pack_ns);
  span.compressed |= event.compression.wire_bytes > 0;
  if (--found->second.begun > 0) return;
  rank_.operations.push_back(span);
  bundles_.erase(found);
}

void RankLoader::note_open(const Track& track) {
  if (track.kind != TrackKind::kTensor) return;
  if (track.running != 0) {
    rank_.unfinished.push_back({track.name, track.run_start_ns, true});
  } else if (track.submit_ns != 0 && track.agreed_ns == 0) {
    rank_.unfinished.push_back({track.name, track.submit_ns, false});
  }
}

/// Operations that are still open have failed; their ends follow.
void RankLoader::end_epoch() {
  for (const auto& [tid, track] : tracks_) note_open(track);
  forget_open();
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
  for (auto& [tid, track] : tracks_) {
    track.submit_ns = track.agreed_ns = 0;
    track.running = 0;
    track.open_runs = 0;
    track.open.clear();
  }
  bundles_.clear();
}

void RankLoader::finish() {
  end_pause(rank_.last_ns);
  for (const auto& [tid, track] : tracks_) note_open(track);
  std::ranges::sort(rank_.unfinished, {}, &Unfinished::since_ns);
}

}  // namespace ronde::report
