#include "timeline/recording/epoch_recorder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "core/base/join_text.h"
#include "core/base/log.h"
#include "core/ports/event_sink.h"
#include "timeline/recording/trace_format.h"

namespace ronde {
namespace {

constexpr int kEpochs = 1, kWorkers = 2;  // numbers of the tracks

RecordingInfo describe(const std::string& job) {
  RecordingInfo info;
  info.launcher = true;
  info.rank = -1;
  info.job = job;
  std::array<char, 256> name{};
  (void)::gethostname(name.data(), name.size() - 1);
  info.host = name.data();
  set_start(info);
  return info;
}

std::string track_name(int track, std::string_view name) {
  return fmt::format(
      ",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}}}}",
      kJobRow, track, json_text(name));
}

/// An event's name and facts.
std::string named(std::string_view name, const LauncherFacts& facts) {
  QuotedTexts quoted;
  std::string args;
  LauncherFacts::fields(facts, ArgsWriter(args, quoted));
  return fmt::format(",\"name\":{},\"args\":{{{}}}", json_text(name), args);
}

}  // namespace

std::string_view to_string(WorkerEvent event) noexcept {
  constexpr std::array<std::string_view, 5> kNames = {"started", "joined", "left", "died",
                                                      "finished"};
  return kNames[static_cast<std::size_t>(event)];
}

Result<EpochRecorder> EpochRecorder::open(const std::string& path, const std::string& job) {
  const RecordingInfo info = describe(job);
  RONDE_ASSIGN_OR_RETURN(TraceFile file,
                         TraceFile::open(epochs_trace_path(path), format_header(info)));
  EpochRecorder recorder(std::move(file), info.steady_start_ns);
  recorder.write_line(track_name(kEpochs, kEpochsTrack) + track_name(kWorkers, kWorkersTrack));
  return recorder;
}

void EpochRecorder::write_line(const std::string& line) {
  if (failed_) return;
  const Status status = file_.append(line);
  if (status.ok()) return;
  failed_ = true;
  log(LogLevel::kWarning, "{}; the recording of epochs ends here", status.message());
}

/// `rest`: the fields after the time, each with a comma before it.
void EpochRecorder::write(char phase, int track, std::string_view rest) {
  std::string line =
      fmt::format(",\n{{\"ph\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":", phase, kJobRow, track);
  append_micros(line, steady_ns() - start_ns_);
  line.append(rest).append("}");
  write_line(line);
}

void EpochRecorder::end_span() {
  if (std::exchange(open_span_, false)) write('E', kEpochs, "");
}

void EpochRecorder::begin_epoch(const EpochFacts& epoch) {
  end_span();
  const std::string workers = join_text(epoch.workers, ",");
  write('B', kEpochs,
        named(fmt::format("{} {}", kEpochSpan, epoch.number),
              {.epoch = epoch.number, .workers = workers, .why = epoch.why}));
  open_epoch_ = open_span_ = true;
}

void EpochRecorder::end_epoch(bool failed) {
  if (!std::exchange(open_epoch_, false)) return;
  end_span();
  write('B', kEpochs, fmt::format(",\"name\":\"{}\"", failed ? kRecoverySpan : kChangeSpan));
  open_span_ = true;
}

void EpochRecorder::add(WorkerEvent event, int worker, int epoch, std::string_view why) {
  const std::string_view name = to_string(event);
  write(
      'i', kWorkers,
      ",\"s\":\"t\"" + named(fmt::format("worker {} {}", worker, name),
                             {.epoch = epoch, .worker = worker, .worker_event = name, .why = why}));
}

void EpochRecorder::close() {
  end_span();
  open_epoch_ = false;
}

}  // namespace ronde
