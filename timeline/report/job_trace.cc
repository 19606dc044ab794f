#include "timeline/report/job_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "timeline/merging/merge_marks.h"
#include "timeline/reading/job_clock.h"
#include "timeline/reading/trace_reader.h"
#include "timeline/report/epoch_loader.h"
#include "timeline/report/job_history.h"
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

  Result<LoadedJob> load() {
    RONDE_RETURN_IF_ERROR(align());
    for (const std::size_t index : order_) RONDE_RETURN_IF_ERROR(read(index));
    LoadedJob job;
    for (auto& [number, epoch] : epochs_) {
      RONDE_ASSIGN_OR_RETURN(JobTrace trace, epoch.finish(tail_bytes_ > 0));
      job.epochs.emplace(number, std::move(trace));
    }
    if (job.epochs.empty()) return wrong(paths_.front(), "no worker has recorded anything");
    job.history = history_of(launcher_, job.epochs);
    return job;
  }

 private:
  /// The recording to which a row's events belong.
  struct Recording {
    EpochLoader* epoch = nullptr;
    RankLoader* rank = nullptr;
  };

  Status align();
  Status read(std::size_t index);
  Status take(std::size_t index, const RawEvent& raw, bool names_only);
  Status begin_recording(std::size_t index, RecordingInfo info);
  Status check_job(const std::string& path, const RecordingInfo& info);

  const std::vector<std::string>& paths_;
  ProgressTeller teller_;
  const std::uint64_t tail_bytes_;
  EventParser parser_;
  std::optional<JobClock> clock_;
  std::vector<std::size_t> order_;  ///< Order of reading: parts one after the other.
  std::map<int, EpochLoader> epochs_;
  std::map<std::int64_t, Recording> rows_;
  std::map<std::size_t, int> recordings_;  ///< By file.
  std::optional<std::string> elastic_job_;
  LauncherEvents launcher_;
};

/// True for the heads of recordings of Ronde.
bool is_known(const std::optional<RecordingInfo>& info) {
  return info && (info->rank >= 0 || info->launcher);
}

/// An elastic job's id, without the epoch's number behind it.
std::string elastic_job_of(const RecordingInfo& info) {
  return info.launcher ? info.job : info.job.substr(0, info.job.rfind('-'));
}

/// Reads the recording's head.
Result<RecordingInfo> read_recording(const std::string& path) {
  RONDE_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::open(path));
  for (int i = 0; i < kHeaderEvents; ++i) {
    RONDE_ASSIGN_OR_RETURN(const std::optional<RawEvent> event, reader.next());
    if (!event) break;
    const auto info = parse_recording(event->text);
    if (is_known(info)) return *info;
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

/// An elastic job and one that is not, or two elastic jobs, do not fit together.
Status Loader::check_job(const std::string& path, const RecordingInfo& info) {
  const std::string job =
      info.launcher || info.epoch > 0 ? "elastic job " + elastic_job_of(info) : "job of ranks";
  if (!elastic_job_) elastic_job_ = job;
  if (*elastic_job_ == job) return {};
  return wrong(path, fmt::format("these are traces of several jobs: this one is of the {}, others "
                                 "are of the {}",
                                 job, *elastic_job_));
}

Status Loader::begin_recording(std::size_t index, RecordingInfo info) {
  const std::string& path = paths_[index];
  if (++recordings_[index] > 1 && paths_.size() > 1) {
    return wrong(path, "this trace is a merged one; give it alone, or the traces of the ranks");
  }
  RONDE_RETURN_IF_ERROR(check_job(path, info));
  if (info.launcher) return {};
  EpochLoader& epoch = epochs_.try_emplace(info.epoch, info.epoch).first->second;
  const int row = info.row();
  RONDE_ASSIGN_OR_RETURN(RankLoader * rank, epoch.begin(std::move(info), path, index));
  rows_[row] = {&epoch, rank};
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
  if (event.heads()) {
    if (auto info = parse_recording(raw.text); is_known(info)) {
      RONDE_RETURN_IF_ERROR(begin_recording(index, std::move(*info)));
    }
  }
  event.at_ns = clock_->time_of(index, event.at_ns);
  if (event.pid == kJobRow) {
    launcher_.take(event);
    return {};
  }
  const auto row = rows_.find(event.pid);
  if (row == rows_.end()) return {};
  row->second.epoch->count_event();
  if (!event.heads() && (!names_only || event.phase == 'M')) row->second.rank->take(event);
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
  for (auto& [number, epoch] : epochs_) epoch.end_file(index, reader.truncated());
  return {};
}

}  // namespace

std::string label_of(const RecordingInfo& info) {
  return info.worker > 0 ? fmt::format("worker {}", info.worker)
                         : fmt::format("rank {}", info.rank);
}

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

Result<LoadedJob> load_job(const std::vector<std::string>& paths, const ReadProgress& progress,
                           std::uint64_t tail_bytes) {
  return Loader(paths, progress, tail_bytes).load();
}

int LoadedJob::longest_epoch() const {
  const auto length = [](const JobTrace& job) {
    std::int64_t first_ns = job.ranks.front().first_ns, last_ns = first_ns;
    for (const RankTrace& rank : job.ranks) {
      first_ns = std::min(first_ns, rank.first_ns);
      last_ns = std::max(last_ns, rank.last_ns);
    }
    return last_ns - first_ns;
  };
  return std::ranges::max_element(epochs, {},
                                  [&](const auto& epoch) { return length(epoch.second); })
      ->first;
}

Result<JobTrace> load_traces(const std::vector<std::string>& paths, const ReadProgress& progress) {
  RONDE_ASSIGN_OR_RETURN(LoadedJob job, load_job(paths, progress));
  return std::move(job.epochs.at(job.longest_epoch()));
}

}  // namespace ronde::report
