#include "bindings/runtime/diagnostics.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "bindings/runtime/diagnosis/dump_signal.h"
#include "bindings/runtime/groups/rank_place.h"
#include "bindings/runtime/metrics/metrics.h"
#include "bindings/runtime/version.h"
#include "bindings/runtime/worker_history.h"
#include "core/base/log.h"
#include "core/base/os/folders.h"

namespace ronde {
namespace {

Status make_dump_folder(const std::string& folder) {
  if (folder.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (is_folder(folder)) return {};
  return {Code::kInvalidArgument,
          fmt::format("RONDE_DUMP_DIR={} is no folder and cannot be made one{}{}", folder,
                      error ? ": " : "", error ? error.message() : "")};
}

const std::string& host_name(const Topology& topology) {
  return topology.peers[static_cast<std::size_t>(topology.rank)].host_name;
}

}  // namespace

Status Diagnostics::start(const Config& config, const Topology& topology,
                          DiagnosticsSources sources) {
  RONDE_RETURN_IF_ERROR(make_dump_folder(config.dump_dir));
  start_service(config, topology, sources.service);
  make_page(config, topology, sources);
  return start_metrics(config, topology);
}

void Diagnostics::start_service(const Config& config, const Topology& topology,
                                diagnosis::ServiceOptions options) {
  options.head.job = config.job_id;
  options.head.rank = topology.rank;
  options.head.size = topology.size();
  options.head.host = host_name(topology);
  options.head.pid = ::getpid();
  options.folder = config.dump_dir;
  options.signal = diagnosis::dump_signal_number(config);
  options.timeline_signal = diagnosis::timeline_signal_number(config);
  options.stall = {.warning = config.stall_warning, .error = config.stall_error};
  options.callers = &callers_;
  options.waker = &waker_;
  service_ = std::make_unique<diagnosis::Service>(std::move(options));
}

void Diagnostics::make_page(const Config& config, const Topology& topology,
                            const DiagnosticsSources& sources) {
  const metrics::RankFacts facts{.version = kVersion,
                                 .job = config.job_id,
                                 .host = host_name(topology),
                                 .rank = topology.rank,
                                 .size = topology.size(),
                                 .worker = config.worker,
                                 .epoch = config.epoch};
  const WorkerHistory* const history = WorkerHistory::of(config);
  const MutexLock lock(mutex_);
  page_ = [sources, facts, history] {
    if (history != nullptr) sources.report_transition();
    metrics::RankState state{.steps = sources.steps(),
                             .broken = !sources.service.abort->status().ok()};
    state.connections = sources.connections.get();
    if (history != nullptr) state.recoveries = &history->recoveries();
    if (history != nullptr) state.changes = &history->changes();
    return metrics::metrics_text(facts, state, *sources.meter);
  };
}

std::string Diagnostics::metrics_text() const {
  const MutexLock lock(mutex_);
  return page_ ? page_() : "";
}

Status Diagnostics::start_metrics(const Config& config, const Topology& topology) {
  if (config.metrics_port == 0) return {};
  auto server = metrics::Server::start(config.metrics_address,
                                       config.metrics_port + rank_place(topology).local_rank,
                                       [this] { return metrics_text(); });
  if (server.ok()) {
    metrics_ = std::move(server).value();
    return {};
  }
  if (server.status().code() == Code::kInvalidArgument) return server.status();
  log(LogLevel::kWarning, "{}; the job goes on without", server.status().message());
  return {};
}

void Diagnostics::stop() noexcept {
  service_.reset();
  metrics_.reset();
  const MutexLock lock(mutex_);
  page_ = nullptr;
}

}  // namespace ronde
