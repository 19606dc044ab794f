#include "timeline/recording/recorder.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/thread_name.h"
#include "timeline/recording/trace_head.h"

namespace ronde {
namespace {

constexpr std::size_t kSlots = 16384;
constexpr int kWriterNice = 10;
constexpr std::chrono::milliseconds kFlushInterval{50};
constexpr std::size_t kFlushBytes = std::size_t{1} << 20;

RecordingInfo describe(int rank, const Topology& topology, const Recorder::Options& options) {
  RecordingInfo info = options.about;
  info.rank = rank;
  info.size = topology.size();
  if (rank >= 0 && rank < topology.size()) {
    info.host = topology.peers[static_cast<std::size_t>(rank)].host_name;
  }
  info.cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  set_start(info);
  if (options.chunk_bytes > 0) info.part = 1;
  return info;
}

Event event_of(EventKind kind, std::string_view track, std::string_view name,
               const EventArgs& args) {
  Event event{args, kind, track, name};
  if (event.at_ns == 0) event.at_ns = steady_ns();
  return event;
}

/// One event for all tracks.
Event group_of(EventKind kind, std::span<const std::string_view> tracks, std::string_view name,
               const EventArgs& args) {
  Event event = event_of(kind, {}, name, args);
  if (tracks.size() == 1) {
    event.track = tracks.front();
  } else {
    event.tracks = tracks;
  }
  return event;
}

}  // namespace

Result<std::unique_ptr<Recorder>> Recorder::open(const std::string& path, int rank,
                                                 const Topology& topology, Options options) {
  RecordingInfo info = describe(rank, topology, options);
  std::string own_path = info.epoch > 0 ? worker_trace_path(path, info.worker, info.epoch)
                                        : rank_trace_path(path, rank);
  for (const std::string& old : trace_files(own_path)) {
    if (old != own_path) (void)::unlink(old.c_str());  // parts of an earlier recording
  }
  RONDE_ASSIGN_OR_RETURN(TraceFile file, TraceFile::open(own_path, format_header(info)));
  return std::unique_ptr<Recorder>(
      new Recorder(std::move(file), std::move(own_path), std::move(info), std::move(options)));
}

Recorder::Recorder(TraceFile file, std::string own_path, RecordingInfo info, Options options)
    : info_(std::move(info)),
      path_(std::move(own_path)),
      owner_pid_(::getpid()),
      options_(std::move(options)),
      ring_(kSlots),
      file_(std::move(file)),
      formatter_(info_, options_.tracks),
      writer_([this] { run(); }) {}

Recorder::~Recorder() { (void)close(); }

void Recorder::push(const Event& event) noexcept {
  if (!recording_.load(std::memory_order_relaxed)) return;
  if (!ring_.push(event)) {
    dropped_.fetch_add(std::max<std::size_t>(1, event.tracks.size()), std::memory_order_relaxed);
  } else if (ring_.half_full()) {
    wake_.notify_one();
  }
}

void Recorder::mark_cycle(std::uint64_t bundle) noexcept {
  if (!options_.mark_cycles || bundle == 0 || last_bundle_.exchange(bundle) == bundle) return;
  push(event_of(EventKind::kInstant, "cycles", "CYCLE_START", {}));
}

void Recorder::begin(std::string_view track, std::string_view event, const EventArgs& args) {
  mark_cycle(args.bundle);
  push(event_of(EventKind::kBegin, track, event, args));
}

void Recorder::end(std::string_view track, const EventArgs& args) {
  push(event_of(EventKind::kEnd, track, {}, args));
}

void Recorder::begin_all(std::span<const std::string_view> tracks, std::string_view event,
                         const EventArgs& args) {
  if (tracks.empty()) return;
  mark_cycle(args.bundle);
  push(group_of(EventKind::kBegin, tracks, event, args));
}

void Recorder::end_all(std::span<const std::string_view> tracks, const EventArgs& args) {
  if (!tracks.empty()) push(group_of(EventKind::kEnd, tracks, {}, args));
}

void Recorder::span(std::string_view track, std::string_view event, TimeSpan times,
                    const EventArgs& args) {
  EventArgs start = args;
  start.at_ns = times.start_ns;
  push(event_of(EventKind::kBegin, track, event, start));
  push(event_of(EventKind::kEnd, track, {}, {.at_ns = times.end_ns}));
}

void Recorder::instant(std::string_view track, std::string_view event) {
  push(event_of(EventKind::kInstant, track, event, {}));
}

void Recorder::counter(std::string_view name, double value) {
  Event event = event_of(EventKind::kCounter, {}, name, {});
  event.value = value;
  push(event);
}

void Recorder::pause() { push(event_of(EventKind::kPause, {}, {}, {})); }

void Recorder::resume() { push(event_of(EventKind::kResume, {}, {}, {})); }

/// Sleeps until events are due. Returns false once the recording shall end.
bool Recorder::wait_for_events() {
  MutexLock lock(mutex_);
  if (!closing_ && !ring_.half_full()) (void)wake_.wait_until(mutex_, now() + kFlushInterval);
  return !closing_;
}

void Recorder::run() {
  name_this_thread("ronde-trace");
  // On Linux each thread has its own niceness. The ring holds events while ranks compute.
  (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kWriterNice);
  while (wait_for_events()) {
    write_clock_samples();
    write_counters();
    flush();
  }
  flush();
}

void Recorder::append_counter(std::string& lines, const CounterSample& sample) {
  Event event = event_of(EventKind::kCounter, {}, sample.name, {});
  event.value = sample.value;
  formatter_.append(lines, event);
}

void Recorder::write_last_counters() {
  if (!options_.last_counters) return;
  std::string lines;
  for (const CounterSample& sample : options_.last_counters()) append_counter(lines, sample);
  write(lines);
}

/// The next epoch's recording has the same tracks.
void Recorder::end_epoch() {
  if (info_.epoch == 0) return;
  std::string lines;
  formatter_.append_epoch_end(lines, steady_ns());
  write(lines);
}

void Recorder::write_counters() {
  if (!options_.counters) return;
  std::string lines;
  for (const CounterSample& sample : options_.counters()) {
    const auto [told, added] = told_counters_.try_emplace(std::string(sample.name), sample.value);
    if (!added && told->second == sample.value) continue;
    told->second = sample.value;
    append_counter(lines, sample);
  }
  write(lines);
}

/// Continues in this file if the next one cannot be created.
void Recorder::begin_part() {
  const std::string full = trace_part_path(path_, info_.part);
  if (::rename(path_.c_str(), full.c_str()) != 0) return;
  RecordingInfo next = info_;
  ++next.part;
  auto file = TraceFile::open(path_, format_header(next));
  if (!file.ok()) {
    (void)::rename(full.c_str(), path_.c_str());
    return;
  }
  file_ = std::move(file).value();
  info_.part = next.part;
  const int oldest = info_.part - options_.parts;  // the file to delete
  if (oldest > 0) (void)::unlink(trace_part_path(path_, oldest).c_str());
  std::string lines;
  formatter_.append_tracks(lines);
  (void)file_.append(lines);
}

void Recorder::write_clock_samples() {
  if (!options_.clock_samples) return;
  std::string lines;
  for (const ClockSample& sample : options_.clock_samples()) {
    lines += format_clock_sample(info_.row(), sample);
  }
  write(lines);
}

void Recorder::flush() {
  std::string lines;
  do {
    lines.clear();
    while (lines.size() < kFlushBytes &&
           ring_.pop([&](const Event& event) { formatter_.append(lines, event); })) {
    }
    if (const std::uint64_t lost = dropped(); lost != told_dropped_) {
      formatter_.append_dropped(lines, lost, steady_ns());
      told_dropped_ = lost;
    }
    write(lines);
  } while (lines.size() >= kFlushBytes);
}

void Recorder::write(std::string_view lines) {
  if (!recording_.load(std::memory_order_relaxed)) return;
  const Status status = file_.append(lines);
  if (status.ok()) {
    const auto limit = static_cast<std::int64_t>(options_.chunk_bytes);
    if (limit > 0 && file_.bytes() >= limit) begin_part();
    return;
  }
  recording_.store(false, std::memory_order_relaxed);
  log(LogLevel::kWarning, "{}; the recording ends here", status.message());
  MutexLock lock(mutex_);
  status_ = status;
}

Status Recorder::close() {
  if (writer_.joinable() && owner_pid_ == ::getpid()) {
    {
      MutexLock lock(mutex_);
      closing_ = true;
    }
    wake_.notify_one();
    writer_.join();
    flush();
    end_epoch();
    write_last_counters();  // last: measuring takes time
    recording_.store(false, std::memory_order_relaxed);
    if (dropped() > 0) log(LogLevel::kWarning, "{} events of {} were lost", dropped(), path_);
  } else if (writer_.joinable()) {
    writer_.detach();  // after fork: the thread belongs to the parent
  }
  MutexLock lock(mutex_);
  return status_;
}

}  // namespace ronde
