#include "bindings/runtime/diagnosis/script_stacks.h"

#include <system_error>
#include <utility>

#include "bindings/runtime/diagnosis/service_thread.h"
#include "core/base/thread_name.h"

namespace ronde::diagnosis {
namespace {

constexpr const char* kLockHeld =
    "a thread holds the interpreter's lock (GIL), as an extension that hangs does";

}  // namespace

ScriptStacks::~ScriptStacks() {
  abort();
  if (thread_.joinable()) thread_.join();
}

void ScriptStacks::begin() {
  if (!source_) return;
  const MutexLock lock(mutex_);
  if (running_ || aborted_) return;
  if (thread_.joinable()) thread_.join();  // its call has ended
  answer_.reset();
  try {
    thread_ = start_without_signals([this] { run(); });
    running_ = true;
  } catch (const std::system_error& error) {
    answer_.emplace(
        Status(Code::kUnavailable, std::string("no thread can be started: ") + error.what()));
  }
}

void ScriptStacks::run() {
  name_this_thread("ronde-script");
  auto answer = source_();
  const MutexLock lock(mutex_);
  answer_ = std::move(answer);
  running_ = false;
  changed_.notify_all();
}

void ScriptStacks::finish(Dump& dump, TimePoint deadline) {
  const MutexLock lock(mutex_);
  while (running_ && !aborted_ && changed_.wait_until(mutex_, deadline)) {
  }
  if (aborted_) return;
  if (running_) {
    dump.script_error = kLockHeld;
  } else if (answer_ && answer_->ok()) {
    dump.script = **answer_;
  } else if (answer_) {
    dump.script_error = answer_->status().message();
  }
}

void ScriptStacks::abort() {
  const MutexLock lock(mutex_);
  aborted_ = true;
  changed_.notify_all();
}

}  // namespace ronde::diagnosis
