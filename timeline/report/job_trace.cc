#include "timeline/report/job_trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "core/ports/executor.h"
#include "timeline/merging/merge_marks.h"
#include "timeline/reading/job_clock.h"
#include "timeline/reading/trace_reader.h"
#include "timeline/report/rank_loader.h"

namespace ronde::report {
namespace {

constexpr int kHeaderEvents = 1000;  // the recording's head is among the first events

Status wrong(const std::string& path, const std::string& what) {
  return {Code::kInvalidArgument, fmt::format("{}: {}", path, what)};
}

class Loader {
 public:
  Loader(const std::vector<std::string>& paths, const ReadProgress& progress,
         std::uint64_t tail_bytes)
      : paths_(paths), teller_(paths, progress), tail_bytes_(tail_bytes) {}

  Result<JobTrace> load() {
    RONDE_RETURN_IF_ERROR(align());
    for (const std::size_t index : order_) RONDE_RETURN_IF_ERROR(read(index));
    RONDE_RETURN_IF_ERROR(check_job());
    take_notes();
    forget_cut_ends();
    return std::move(job_);
  }

 private:
  struct Rank {
    RankTrace trace;
    std::unique_ptr<RankLoader> loader;
    std::size_t file = 0;  ///< Its last file.
  };

  Status align();
  Status read(std::size_t index);
  Status take(std::size_t index, const RawEvent& raw, bool names_only);
  Status add_rank(std::size_t index, RecordingInfo info);
  Status check_job() const;
  void take_notes();
  void forget_cut_ends();

  const std::vector<std::string>& paths_;
  ProgressTeller teller_;
  const std::uint64_t tail_bytes_;
  EventParser parser_;
  std::optional<JobClock> clock_;
  std::vector<std::size_t> order_;  ///< Order of reading: parts one after the other.
  std::map<std::int64_t, Rank> ranks_;
  std::map<std::size_t, int> recordings_;  ///< By file.
  JobTrace job_;
};

/// Reads the recording's head.
Result<RecordingInfo> read_recording(const std::string& path) {
  RONDE_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::open(path));
  for (int i = 0; i < kHeaderEvents; ++i) {
    RONDE_ASSIGN_OR_RETURN(const std::optional<RawEvent> event, reader.next());
    if (!event) break;
    const auto info = parse_recording(event->text);
    if (info && info->rank >= 0) return *info;
  }
  return wrong(path, "this is no trace of Ronde: no event says which rank recorded it");
}

Status Loader::align() {
  std::vector<TraceClock> traces;
  for (const std::string& path : paths_) {
    RONDE_ASSIGN_OR_RETURN(RecordingInfo info, read_recording(path));
    traces.push_back({std::move(info), {}});
  }
  RONDE_RETURN_IF_ERROR(read_clock_samples(paths_, traces));
  clock_.emplace(traces);
  order_ = reading_order(traces);
  return {};
}

Status Loader::add_rank(std::size_t index, RecordingInfo info) {
  const std::string& path = paths_[index];
  if (++recordings_[index] > 1 && paths_.size() > 1) {
    return wrong(path, "this trace is a merged one; give it alone, or the traces of the ranks");
  }
  const std::int64_t rank = info.rank;
  const auto [at, added] = ranks_.try_emplace(rank);
  if (!added && goes_on(at->second.trace.info, info)) {
    at->second.trace.info.part = info.part;
    at->second.file = index;
    return {};
  }
  if (!added) {
    return wrong(path, fmt::format("rank {} has a trace already: {}; give the traces of one job, "
                                   "or its merged trace",
                                   rank, at->second.trace.path));
  }
  Rank& made = at->second;
  made.file = index;
  if (info.part > 1) {
    job_.notes.push_back(
        fmt::format("The trace of rank {} begins with its part {}: those before "
                    "are not there.",
                    rank, info.part));
  }
  made.trace.info = std::move(info);
  made.trace.path = path;
  made.loader = std::make_unique<RankLoader>(job_, made.trace);
  return {};
}

/// `names_only`: skip everything but names.
Status Loader::take(std::size_t index, const RawEvent& raw, bool names_only) {
  const std::string& path = paths_[index];
  auto parsed = parser_.parse(raw.text);
  if (!parsed.ok()) {
    return wrong(path, fmt::format("byte {}: {}", raw.offset, parsed.status().message()));
  }
  TraceEvent& event = *parsed;
  if (is_arrival(event) || is_flow(event)) return {};
  ++job_.events;
  if (event.phase == 'M' && event.name == "recording") {
    if (auto info = parse_recording(raw.text); info && info->rank >= 0) {
      return add_rank(index, std::move(*info));
    }
  }
  const auto rank = ranks_.find(event.pid);
  if (rank == ranks_.end() || (names_only && event.phase != 'M')) return {};
  event.time_ns = clock_->time_of(index, event.time_ns);
  rank->second.loader->take(event);
  return {};
}

Status Loader::read(std::size_t index) {
  const std::string& path = paths_[index];
  RONDE_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::open(path));
  const std::uint64_t bytes = bytes_of(path);
  bool head = tail_bytes_ > 0 && bytes > 2 * tail_bytes_ && reader.can_skip();
  for (;;) {
    if (head && reader.position() >= tail_bytes_) {
      reader.skip_to(bytes - tail_bytes_);
      head = false;
    }
    RONDE_ASSIGN_OR_RETURN(const std::optional<RawEvent> event, reader.next());
    if (!event) break;
    RONDE_RETURN_IF_ERROR(take(index, *event, head));
    teller_.tell(reader.file_bytes());
  }
  teller_.end(bytes);
  for (auto& [number, rank] : ranks_) {
    if (rank.file == index) rank.trace.truncated = reader.truncated();
  }
  return {};
}

Status Loader::check_job() const {
  const RankTrace& first = ranks_.begin()->second.trace;
  for (const auto& [number, rank] : ranks_) {
    const RecordingInfo& info = rank.trace.info;
    if (info.job == first.info.job && info.size == first.info.size) continue;
    return wrong(rank.trace.path,
                 fmt::format("these are traces of several jobs: rank {} is of a job of {} ranks "
                             "(\"{}\"), rank {} in {} of one of {} (\"{}\")",
                             info.rank, info.size, info.job, first.info.rank, first.path,
                             first.info.size, first.info.job));
  }
  return {};
}

void Loader::take_notes() {
  std::vector<std::int64_t> missing;
  const int size = ranks_.begin()->second.trace.info.size;
  for (int rank = 0; rank < size; ++rank) {
    if (!ranks_.contains(rank)) missing.push_back(rank);
  }
  if (!missing.empty()) {
    job_.notes.push_back(
        fmt::format("No trace of rank {} was given: who waited for it is not "
                    "known.",
                    fmt::join(missing, ", ")));
  }
  for (auto& [number, rank] : ranks_) {
    rank.loader->finish();
    RankTrace& trace = rank.trace;
    if (trace.truncated) {
      job_.notes.push_back(
          fmt::format("The end of {} is missing (rank {} was cut short).", trace.path, number));
    }
    if (!trace.pauses.empty()) {
      job_.notes.push_back(
          fmt::format("The recording of rank {} paused {} time{}; steps in which "
                      "one did are left out.",
                      number, trace.pauses.size(), trace.pauses.size() == 1 ? "" : "s"));
    }
    if (trace.lost_events > 0) {
      job_.notes.push_back(fmt::format("{} events of rank {} were lost while recording.",
                                       trace.lost_events, number));
    }
    job_.ranks.push_back(std::move(trace));
  }
}

/// The rank's newest bundle in each process set.
using Newest = std::map<std::uint64_t, std::uint64_t>;

Newest newest_bundles(const RankTrace& rank) {
  Newest newest;
  for (const OperationSpan& operation : rank.operations) {
    std::uint64_t& bundle = newest[operation.bundle >> kBundleBits];
    bundle = std::max(bundle, operation.bundle);
  }
  return newest;
}

/// True if the other continued, after the end of a rank's trace, with bundles that need that rank.
bool goes_on_with(const Newest& newest, std::int64_t last_ns, const RankTrace& other) {
  for (auto last = other.operations.rbegin(); last != other.operations.rend(); ++last) {
    if (last->end_ns <= last_ns) return false;
    const auto known = newest.find(last->bundle >> kBundleBits);
    if (known != newest.end() && last->bundle > known->second) return true;
  }
  return false;
}

/// A killed rank did not write its last moments. Its pending operations have ended since.
void Loader::forget_cut_ends() {
  for (RankTrace& rank : job_.ranks) {
    const Newest newest = newest_bundles(rank);
    const bool cut = std::any_of(job_.ranks.begin(), job_.ranks.end(), [&](const auto& other) {
      return goes_on_with(newest, rank.last_ns, other);
    });
    if (!cut) continue;
    rank.unfinished.clear();
    // Noted already, or a running job, whose ranks write at different times.
    if (rank.truncated || tail_bytes_ > 0) continue;
    job_.notes.push_back(
        fmt::format("The trace of rank {} ends before what the others did with it, as that of a "
                    "rank that was killed: its last moments are not known.",
                    rank.info.rank));
  }
}

}  // namespace

std::string Path::text() const {
  std::string text = event;
  if (!algorithm.empty() && algorithm != "native") text += " " + algorithm;
  if (!backend.empty()) text += " over " + backend;
  return text;
}

std::uint32_t JobTrace::number_of(const Path& path) {
  const auto number =
      static_cast<std::uint32_t>(std::find(paths.begin(), paths.end(), path) - paths.begin());
  if (number == paths.size()) paths.push_back(path);
  return number;
}

std::uint32_t Names::number_of(std::string_view text) {
  const auto [at, added] =
      numbers_.try_emplace(std::string(text), static_cast<std::uint32_t>(texts_.size()));
  if (added) texts_.emplace_back(text);
  return at->second;
}

Result<JobTrace> load_traces(const std::vector<std::string>& paths, const ReadProgress& progress,
                             std::uint64_t tail_bytes) {
  return Loader(paths, progress, tail_bytes).load();
}

}  // namespace ronde::report
