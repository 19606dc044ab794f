// Reports of a rank: dumps of its operations and threads, answers to `ronde doctor --job`, metrics.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "bindings/runtime/diagnosis/callers.h"
#include "bindings/runtime/diagnosis/service.h"
#include "bindings/runtime/diagnosis/service_thread.h"
#include "bindings/runtime/metrics/server.h"
#include "core/base/mutex.h"
#include "core/base/settings/config.h"
#include "core/base/status.h"
#include "core/engine/records/meter.h"
#include "core/ports/connection_counts.h"
#include "core/ports/topology.h"

namespace ronde {

/// The sources of diagnostics. All are used until Diagnostics::stop().
struct DiagnosticsSources {
  diagnosis::ServiceOptions service;  ///< Diagnostics adds settings, the rank, callers and waker.
  const Meter* meter = nullptr;
  std::shared_ptr<const ConnectionCounts> connections = nullptr;
  std::function<std::uint64_t()> steps;  ///< Training steps so far.
  /// Counts a recovery that is over. Threads: any. Only called in elastic jobs.
  std::function<void()> report_transition = {};
};

/// Owns the threads that report on this rank. Threads: any; start and stop one after the other.
class Diagnostics {
 public:
  /// Starts the threads: metrics only where a port is set. A port in use is a warning.
  /// Errors: kInvalidArgument naming the setting.
  Status start(const Config& config, const Topology& topology, DiagnosticsSources sources);
  /// Makes a dump that is still due, then ends the threads. Blocks: see ScriptStacks. Idempotent.
  void stop() noexcept;

  /// Requests a dump, as operations have stalled. Blocks: never.
  void on_stall() noexcept { waker_.wake(diagnosis::Reason::kStall); }
  /// Requests a dump, as an operation waited for a rank that died or left. Blocks: never.
  void on_left_behind() noexcept { waker_.wake(diagnosis::Reason::kFailure); }
  /// This rank's metrics as Prometheus reads them; empty after stop(). Blocks: never.
  [[nodiscard]] std::string metrics_text() const RONDE_EXCLUDES(mutex_);
  /// The user's threads that wait; dumps show their stacks.
  [[nodiscard]] diagnosis::WaitingCallers& callers() noexcept { return callers_; }

 private:
  void make_page(const Config& config, const Topology& topology, const DiagnosticsSources& sources)
      RONDE_EXCLUDES(mutex_);
  void start_service(const Config& config, const Topology& topology,
                     diagnosis::ServiceOptions options);
  Status start_metrics(const Config& config, const Topology& topology);

  diagnosis::Waker waker_;
  diagnosis::WaitingCallers callers_;
  std::unique_ptr<diagnosis::Service> service_;
  std::unique_ptr<metrics::Server> metrics_;
  mutable Mutex mutex_;
  std::function<std::string()> page_ RONDE_GUARDED_BY(mutex_);
};

}  // namespace ronde
