// The thread that reports what its rank does: to the log or a file when the job fails, an operation
// stalls or a signal asks, and to `ronde doctor --job`. It reads the flight recorder and asks no
// other thread for anything but its stack, so that it answers whatever they are stuck in.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "bindings/runtime/diagnosis/callers.h"
#include "bindings/runtime/diagnosis/diagnostics_address.h"
#include "bindings/runtime/diagnosis/dump_signal.h"
#include "bindings/runtime/diagnosis/script_stacks.h"
#include "bindings/runtime/diagnosis/service_thread.h"
#include "bindings/runtime/diagnosis/stall_reporter.h"
#include "core/base/abort.h"
#include "core/engine/records/operation_ring.h"
#include "core/engine/records/record_watch.h"
#include "timeline/dump.h"

namespace ronde::diagnosis {

struct ServiceOptions {
  Dump head;                ///< Job, rank, size, host and pid; the rest is filled in for each dump.
  std::string folder;       ///< The folder for dumps; empty: a summary goes to the log instead.
  int signal = 0;           ///< Asks for a dump; 0 for none.
  int timeline_signal = 0;  ///< Switches the timeline on and off; 0 for none.
  std::function<void()> on_timeline;  ///< Does so, in the service's thread.
  std::shared_ptr<const AbortToken> abort;
  std::function<Status()> left_behind;      ///< Engine::left_behind().
  const OperationRing* records = nullptr;   ///< Outlives it.
  const WaitingCallers* callers = nullptr;  ///< Outlives it.
  Waker* waker = nullptr;                   ///< Outlives it.
  ScriptSource script;                      ///< Null in a program without a script.
  StallLimits stall;  ///< Two dumps of stalls are a warning's time apart, too.
  std::function<void(const Status&)> fail;  ///< Declares the job broken; any thread.
};

/// Threads: construction and destruction in one.
class Service {
 public:
  /// Starts the thread. Where the socket cannot be made, all but the doctor works.
  explicit Service(ServiceOptions options);
  /// Makes a dump that is still owed, then ends the thread. Blocks: see ScriptStacks.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

 private:
  void run();
  void serve_reasons();
  void tell_stall();
  void watch_operations();
  void tell(const char* reason);
  void write_file(const Dump& dump);
  [[nodiscard]] Dump outline(const char* reason) const;
  [[nodiscard]] Dump full(const char* reason);
  ReplySocket::Reply reply(std::string_view request);

  const ServiceOptions options_;
  const DiagnosticsAddress self_;
  const int listening_;  // to the abort token
  const DumpSignal signal_;
  const DumpSignal timeline_signal_;
  // Its thread only.
  std::optional<ReplySocket> socket_;
  ReplySocket::Reply last_reply_;
  TimePoint replied_{};
  TimePoint failure_due_ = kForever;  // kForever: nothing is owed
  TimePoint stall_told_{};            // when last
  int files_written_ = 0;
  ScriptStacks script_;
  RecordWatch watch_;
  StallReporter reporter_;
  std::atomic<bool> stop_{false};
  std::thread thread_;  // last
};

/// The file of a rank's dumps: "FOLDER/ronde-dump.JOB.rank3.jsonl".
std::string dump_path(const std::string& folder, const std::string& job, int rank);

}  // namespace ronde::diagnosis
