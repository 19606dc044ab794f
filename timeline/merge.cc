#include "timeline/merge.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "timeline/arrivals.h"
#include "timeline/flows.h"
#include "timeline/job_clock.h"
#include "timeline/read_progress.h"
#include "timeline/recording.h"
#include "timeline/report/event_parser.h"
#include "timeline/trace_output.h"
#include "timeline/trace_reader.h"

namespace ronde {
namespace {

constexpr int kHeaderEvents = 1000;  // the clock is among the first events, or there is none

Status malformed(const std::string& path, const RawEvent& event, const Status& why) {
  return {Code::kInvalidArgument,
          fmt::format("{}: byte {}: {}", path, event.offset, why.message())};
}

Result<RecordingInfo> read_clock(const std::string& path) {
  RONDE_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::open(path));
  report::EventParser parser;
  for (int i = 0; i < kHeaderEvents; ++i) {
    RONDE_ASSIGN_OR_RETURN(const std::optional<RawEvent> event, reader.next());
    if (!event) break;
    if (const auto parsed = parser.parse(event->text); !parsed.ok()) {
      return malformed(path, *event, parsed.status());
    }
    if (auto recording = parse_recording(event->text)) return std::move(*recording);
  }
  return Status(Code::kInvalidArgument,
                fmt::format("{}: no event says start_time_since_epoch_in_micros, so it cannot be "
                            "put on a common clock",
                            path));
}

/// Copies traces to the output.
class Copier {
 public:
  Copier(const JobClock& clock, TraceOutput& output, ProgressTeller teller)
      : clock_(clock), output_(output), teller_(teller) {}

  /// Copies trace `index`, its times on the job's clock; true where its end was missing.
  Result<bool> copy(const std::string& path, std::size_t index) {
    RONDE_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::open(path));
    for (;;) {
      RONDE_ASSIGN_OR_RETURN(const std::optional<RawEvent> raw, reader.next());
      if (!raw) {
        teller_.end(reader.file_bytes());
        return reader.truncated();
      }
      const auto event = parser_.parse(raw->text);
      if (!event.ok()) return malformed(path, *raw, event.status());
      if (is_arrival(*event) || is_flow(*event)) continue;  // of a merge: this one makes its own
      const std::int64_t time_ns = clock_.time_of(index, event->time_ns);
      output_.add({raw->text, *event, time_ns});
      ++events_;
      arrivals_.take(*event, time_ns, output_);
      teller_.tell(reader.file_bytes());
    }
  }

  [[nodiscard]] std::size_t events() const noexcept { return events_; }

 private:
  const JobClock& clock_;
  TraceOutput& output_;
  report::EventParser parser_;
  Arrivals arrivals_;
  ProgressTeller teller_;
  std::size_t events_ = 0;
};

}  // namespace

Result<MergeReport> merge_traces(const std::vector<std::string>& inputs, const std::string& output,
                                 const ReadProgress& progress) {
  std::vector<TraceClock> recordings;
  for (const std::string& path : inputs) {
    std::error_code error;
    if (std::filesystem::equivalent(path, output, error)) {
      return Status(
          Code::kInvalidArgument,
          fmt::format("{} is one of the traces, which the merged one would replace", output));
    }
    RONDE_ASSIGN_OR_RETURN(RecordingInfo recording, read_clock(path));
    recordings.push_back({std::move(recording), {}});
  }
  RONDE_RETURN_IF_ERROR(read_clock_samples(inputs, recordings));
  const JobClock clock(recordings);
  RONDE_ASSIGN_OR_RETURN(const std::unique_ptr<TraceOutput> merged, open_output(output));
  MergeReport report;
  report.clock_error_ns = clock.error_ns();
  Copier copier(clock, *merged, {inputs, progress});
  for (const std::size_t index : reading_order(recordings)) {
    RONDE_ASSIGN_OR_RETURN(const bool truncated, copier.copy(inputs[index], index));
    if (truncated) report.truncated.push_back(inputs[index]);
  }
  RONDE_RETURN_IF_ERROR(merged->finish());
  report.events = copier.events();
  return report;
}

}  // namespace ronde
