// The composition root: joins a job and builds what its bindings use (C++, C, Python, command
// line).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/runtime/diagnosis/script_stacks.h"
#include "bindings/runtime/groups/rank_place.h"
#include "core/base/abort.h"
#include "core/base/settings/config.h"
#include "core/base/status.h"
#include "core/ports/topology.h"

namespace ronde {

struct DeviceLibraries;
class GroupFactory;
class Injector;
class Operations;
class ProcessSets;
class ResidualStore;
class Timeline;
class Runtime;

/// How to join a job.
struct JoinOptions {
  CancelSource cancel;  ///< Ends the start early.
  /// This process's membership in the job before, which has been shut down. The new one keeps its
  /// tuning, and its residuals of compression; those of process sets wait for
  /// ResidualStore::rename_sets().
  const Runtime* last = nullptr;
  bool has_copies = false;  ///< Of residuals of ranks that are gone: no loss is reported.
  /// Dumps have its lines. Called until shutdown(), whose caller must not hold the interpreter's
  /// lock.
  diagnosis::ScriptSource script = {};
};

/// One membership of this process in one job. Two may live in one process.
/// Threads: any, but for shutdown, which must not race with other calls.
class Runtime {
 public:
  /// Joins the job that `config` describes. Collective over its ranks. Blocks up to
  /// config.start_timeout. Errors: kTimeout naming the ranks that did not come, kVersionMismatch,
  /// kInvalidArgument naming a setting, kUnavailable; those of `options.cancel`.
  static Result<std::unique_ptr<Runtime>> create(const Config& config, JoinOptions options = {});
  /// Uses other device libraries than this build's.
  static Result<std::unique_ptr<Runtime>> create(const Config& config, DeviceLibraries libraries,
                                                 JoinOptions options = {});
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  [[nodiscard]] const Config& config() const noexcept;
  [[nodiscard]] const Topology& topology() const noexcept;
  [[nodiscard]] int rank() const noexcept { return topology().rank; }
  [[nodiscard]] int size() const noexcept { return topology().size(); }
  [[nodiscard]] RankPlace place() const { return rank_place(topology()); }

  // The parts live as long as the runtime; most of their calls fail after shutdown().
  [[nodiscard]] Operations& operations() noexcept;
  [[nodiscard]] ProcessSets& process_sets() noexcept;
  [[nodiscard]] GroupFactory& groups() noexcept;
  [[nodiscard]] Timeline& timeline() noexcept;
  /// Null where no fault is to be planted.
  [[nodiscard]] Injector* injector() noexcept;
  /// Saved and loaded for a checkpoint, while no operation is under way.
  [[nodiscard]] ResidualStore& residuals() noexcept;

  /// This rank's metrics as Prometheus reads them; empty after shutdown().
  [[nodiscard]] std::string metrics_text() const;

  /// Waits for operations in flight to end or fail, leaves the job, stops all threads. Idempotent.
  /// `why` is sent to ranks that still wait for this one: UTF-8, its first 512 bytes.
  void shutdown(std::string_view why = {}) noexcept;

  /// Makes all waits of this runtime return kInterrupted, now. Safe in signal handlers.
  void interrupt() noexcept;

 private:
  struct Impl;
  explicit Runtime(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace ronde
