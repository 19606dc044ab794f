// What a Runtime lets be seen of itself: diagnosis, metrics, the timeline.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>

#include "bindings/runtime/metrics/metrics.h"
#include "bindings/runtime/runtime_impl.h"
#include "bindings/runtime/version.h"
#include "ops/compression/auto/codec_speed.h"
#include "timeline/memory_probe.h"

namespace ronde {
namespace {

constexpr std::chrono::milliseconds kCompareClocksEvery{200};

/// The signal that switches the timeline on and off; 0 for none.
int timeline_signal(const Config& config) {
  if (config.timeline_signal == "off") return 0;
  return config.timeline_signal == "USR1" ? SIGUSR1 : SIGUSR2;
}

/// The signal that asks for dumps; 0 for none. Only `ronde run` hands over a descriptor.
int dump_signal(const Config& config) {
  if (config.dump_signal == "USR1") return SIGUSR1;
  const bool wanted =
      config.dump_signal == "USR2" || (config.dump_signal == "auto" && config.secret_fd >= 0);
  return wanted ? SIGUSR2 : 0;
}

Status make_dump_folder(const std::string& folder) {
  if (folder.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!std::filesystem::is_directory(folder)) {
    return {Code::kInvalidArgument,
            fmt::format("RONDE_DUMP_DIR={} is no folder and cannot be made one{}{}", folder,
                        error ? ": " : "", error ? error.message() : "")};
  }
  return {};
}

/// What compression takes this machine; nothing where there is no memory to try.
std::vector<CounterSample> measure_coding() try {
  const std::array kinds{CodecKind::kFp16, CodecKind::kInt8};
  const CodecCosts costs = measure_codecs(kinds);
  const auto ns_per_byte = [&](CodecKind kind) {
    return costs[static_cast<std::size_t>(kind)] * 1e9 / sizeof(float);
  };
  return {{kFp16CodingCounter, ns_per_byte(CodecKind::kFp16)},
          {kInt8CodingCounter, ns_per_byte(CodecKind::kInt8)}};
} catch (const std::bad_alloc&) {
  return {};
}

/// What reports hold against what the job did, and reckon with where they say what would be saved.
std::vector<CounterSample> measure_machine() {
  std::vector<CounterSample> counters = measure_coding();
  counters.push_back({kMemoryCopyCounter, std::round(measure_copy_gbps() * 100) / 100});
  return counters;
}

}  // namespace

Status Runtime::Impl::start_diagnosis() {
  RONDE_RETURN_IF_ERROR(make_dump_folder(config.dump_dir));
  const PeerInfo& self = topology.peers[static_cast<std::size_t>(topology.rank)];
  diagnosis::ServiceOptions options;
  options.head.job = config.job_id;
  options.head.rank = topology.rank;
  options.head.size = topology.size();
  options.head.host = self.host_name;
  options.head.pid = ::getpid();
  options.folder = config.dump_dir;
  options.signal = dump_signal(config);
  options.timeline_signal = timeline_signal(config);
  options.stall_interval = config.stall_warning;
  options.on_timeline = [this] { toggle_timeline(); };
  options.abort = abort;
  options.left_behind = [this] { return engine->left_behind(); };
  options.flights = engine->flights().get();
  options.callers = &callers;
  options.bell = &bell;
  diagnosis = std::make_unique<diagnosis::Service>(std::move(options));
  return {};
}

Status Runtime::Impl::start_metrics() {
  if (config.metrics_port == 0) return {};
  const PeerInfo& self = topology.peers[static_cast<std::size_t>(topology.rank)];
  const std::vector<int> here = topology.host_ranks(topology.rank);
  const auto place = std::find(here.begin(), here.end(), topology.rank) - here.begin();
  const metrics::RankFacts facts{.version = kVersion,
                                 .job = config.job_id,
                                 .host = self.host_name,
                                 .rank = topology.rank,
                                 .size = topology.size()};
  auto server = metrics::Server::start(
      {.address = config.metrics_address,
       .port = config.metrics_port + static_cast<int>(place),
       .page = [this, facts] {
         const metrics::RankState state{.steps = steps, .broken = !abort->status().ok()};
         return metrics::metrics_text(facts, state, engine->meter());
       }});
  if (server.ok()) {
    metrics = std::move(server).value();
  } else if (server.status().code() == Code::kInvalidArgument) {
    return server.status();
  } else {
    log(LogLevel::kWarning, "{}; the job goes on without", server.status().message());
  }
  return {};
}

/// Null: nobody records.
void Runtime::Impl::record_to(Recorder* recorder) {
  hears_ = recorder != nullptr;
  if (nvtx_ == nullptr) return events.set(recorder);
  nvtx_->pass_on_to(recorder);
}

void Runtime::Impl::start_nvtx() {
  if (!config.nvtx) return;
  nvtx_ = create_nvtx_sink();
  if (nvtx_ == nullptr) log(LogLevel::kWarning, "RONDE_NVTX=1, but {}", nvtx_missing());
  events.set(nvtx_.get());
}

Status Runtime::Impl::start_timeline(const std::string& path, bool mark_cycles) {
  MutexLock lock(mutex_);
  if (recording_) return {Code::kInvalidArgument, "a timeline is being written already"};
  RONDE_ASSIGN_OR_RETURN(
      auto recorder,
      Recorder::open(path, topology.rank, topology,
                     {.job = config.job_id,
                      .network_card = card.name,
                      .network_megabits = card.megabits,
                      .mark_cycles = mark_cycles,
                      .clock_samples = [this] { return compare_clocks(); },
                      .counters = [this] { return sample_counters(); },
                      .last_counters = measure_machine,
                      .fusion_bytes = static_cast<std::int64_t>(config.fusion_threshold_bytes),
                      .chunk_bytes = config.timeline_part_bytes,
                      .parts = config.timeline_parts}));
  recorders_.push_back(std::move(recorder));
  recording_ = true;
  record_to(recorders_.back().get());
  return {};
}

Status Runtime::Impl::stop_timeline() {
  MutexLock lock(mutex_);
  if (!recording_) return {};
  recording_ = false;
  record_to(nullptr);
  return recorders_.back()->close();
}

void Runtime::Impl::pause_timeline(bool paused) {
  MutexLock lock(mutex_);
  if (!recording_) return;
  if (paused == !hears_) return;
  if (paused) {
    record_to(nullptr);
    recorders_.back()->pause();
  } else {
    recorders_.back()->resume();
    record_to(recorders_.back().get());
  }
}

void Runtime::Impl::toggle_timeline() {
  bool recording = false;
  bool hears = false;
  {
    MutexLock lock(mutex_);
    recording = recording_;
    hears = hears_;
  }
  if (recording) return pause_timeline(hears);
  const Status status = start_timeline(config.timeline, false);
  if (!status.ok()) log(LogLevel::kWarning, "{}", status.message());
}

Status Runtime::Impl::prepare_timeline() {
  const int number = timeline_signal(config);
  if (number == 0)
    return config.timeline.empty() ? Status() : start_timeline(config.timeline, false);
  const std::string setting = fmt::format("RONDE_TIMELINE_SIGNAL={}", config.timeline_signal);
  if (config.timeline.empty()) {
    return {Code::kInvalidArgument, setting + " needs RONDE_TIMELINE, where the trace is to go"};
  }
  if (number != dump_signal(config)) return {};
  return {Code::kInvalidArgument,
          setting +
              " is the signal that asks for dumps; allowed: the other of USR1 and USR2, or "
              "another RONDE_DUMP_SIGNAL"};
}

std::vector<CounterSample> Runtime::Impl::sample_counters() {
  constexpr std::chrono::milliseconds kShortest{20};
  MutexLock lock(clock_mutex_);
  const TimePoint time = now();
  if (!counting_ || events.get() == nullptr || time - sampled_ < kShortest) return {};
  const Meter& meter = engine->meter();
  const std::uint64_t bytes = meter.bundled_bytes();
  const double seconds = std::chrono::duration<double>(time - sampled_).count();
  const double rate = static_cast<double>(bytes - sampled_bytes_) / seconds / 1e6;
  sampled_ = time;
  sampled_bytes_ = bytes;
  return {{"queue length", static_cast<double>(meter.in_flight())},
          {"bytes in flight", static_cast<double>(meter.bytes_in_flight())},
          {"throughput in MB/s", std::round(rate * 1000) / 1000}};
}

std::vector<ClockSample> Runtime::Impl::compare_clocks() {
  MutexLock lock(clock_mutex_);
  if (comparing_ && now() >= next_comparison_) {
    next_comparison_ = now() + kCompareClocksEvery;
    engine->send_clock(0, [this] { return clock_sync.request(); });
  }
  return clock_sync.take();
}

}  // namespace ronde
