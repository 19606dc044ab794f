// The lines at which the threads of a script are. An interpreter tells them under its lock
// (Python's GIL), which a hanging extension may hold for ever: a thread of its own waits for that
// lock.
#pragma once

#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "timeline/dump.h"

namespace ronde::diagnosis {

/// Reads the lines of all threads of the script, the main thread first. Waits for the interpreter's
/// lock. Throws nothing.
using ScriptSource = std::function<Result<std::vector<DumpScriptThread>>()>;

/// Asks the source, for a limited time. Threads: one, but for abort(): any.
class ScriptStacks {
 public:
  /// `source`: null in a program without a script.
  explicit ScriptStacks(ScriptSource source) : source_(std::move(source)) {}
  /// Blocks until a call of the source has ended: the caller must not hold the interpreter's lock.
  ~ScriptStacks();
  ScriptStacks(const ScriptStacks&) = delete;
  ScriptStacks& operator=(const ScriptStacks&) = delete;

  /// Calls the source in a thread of its own, unless an earlier call has not ended. Blocks: never.
  void begin();
  /// Writes the answer into `dump`: the lines, or the reason why they are not known. Neither after
  /// abort(). Blocks: until `deadline` at most.
  void finish(Dump& dump, TimePoint deadline);
  /// Ends finish(); later calls of begin() have no effect.
  void abort();

 private:
  void run();

  const ScriptSource source_;
  Mutex mutex_;
  CondVar changed_;
  bool running_ RONDE_GUARDED_BY(mutex_) = false;
  bool aborted_ RONDE_GUARDED_BY(mutex_) = false;
  std::optional<Result<std::vector<DumpScriptThread>>> answer_ RONDE_GUARDED_BY(mutex_);
  std::thread thread_;  // joined by the thread that calls begin(), or the destructor
};

}  // namespace ronde::diagnosis
