#include "timeline/merging/merge.h"

#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "timeline/merging/merge_marks.h"
#include "timeline/merging/trace_output.h"
#include "timeline/reading/event_parser.h"
#include "timeline/reading/job_clock.h"
#include "timeline/reading/trace_reader.h"
#include "timeline/recording/trace_head.h"

namespace ronde {
namespace {

constexpr std::uint64_t kReadings = 2;  // the first finds what each bundle waited for
constexpr int kHeaderEvents = 1000;     // the clock is among the first events

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

/// Reads traces event by event, with times on the job's clock.
class EventSource {
 public:
  using Take = std::function<void(const MergedEvent& event)>;

  EventSource(const JobClock& clock, ProgressTeller teller) : clock_(clock), teller_(teller) {}

  /// Passes the events of trace `index` to `take`, except those that an earlier merge added.
  /// Returns whether the trace's end is missing.
  Result<bool> read(const std::string& path, std::size_t index, const Take& take) {
    RONDE_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::open(path));
    for (;;) {
      RONDE_ASSIGN_OR_RETURN(const std::optional<RawEvent> raw, reader.next());
      if (!raw) {
        teller_.end(reader.file_bytes());
        return reader.truncated();
      }
      const auto event = parser_.parse(raw->text);
      if (!event.ok()) return malformed(path, *raw, event.status());
      if (is_arrival(*event) || is_flow(*event)) continue;
      take({raw->text, *event, clock_.time_of(index, event->at_ns)});
      teller_.tell(reader.file_bytes());
    }
  }

 private:
  const JobClock& clock_;
  report::EventParser parser_;
  ProgressTeller teller_;
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
  const std::vector<std::size_t> order = reading_order(recordings);
  EventSource source(clock, {inputs, progress, kReadings});
  Flows flows;
  for (const std::size_t index : order) {
    RONDE_RETURN_IF_ERROR(source
                              .read(inputs[index], index,
                                    [&](const MergedEvent& merged) {
                                      const report::TraceEvent& event = merged.event;
                                      if (event.heads())
                                        flows.begin_recording(event.pid, event.epoch);
                                      flows.survey(event, merged.time_ns);
                                    })
                              .status());
  }
  flows.end_survey();
  RONDE_ASSIGN_OR_RETURN(const std::unique_ptr<TraceOutput> merged, open_output(output, flows));
  MergeReport report;
  report.clock_error_ns = clock.error_ns();
  Arrivals arrivals;
  const auto copy = [&](const MergedEvent& event) {
    if (event.event.heads()) {
      flows.begin_recording(event.event.pid, event.event.epoch);
      arrivals.begin_recording(event.event.pid, event.event.epoch);
    }
    merged->add(event);
    ++report.events;
    arrivals.take(event.event, event.time_ns, *merged);
  };
  for (const std::size_t index : order) {
    RONDE_ASSIGN_OR_RETURN(const bool truncated, source.read(inputs[index], index, copy));
    if (truncated) report.truncated.push_back(inputs[index]);
  }
  RONDE_RETURN_IF_ERROR(merged->finish());
  return report;
}

}  // namespace ronde
