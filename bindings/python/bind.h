// The concepts that the module `ronde._core` is made of; one .cc file binds each.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <type_traits>
#include <utility>

#include "bindings/runtime/runtime.h"
#include "core/engine/engine.h"

namespace ronde::python {

/// The job's runtime as Python objects share it: operations keep it alive.
using RuntimePtr = std::shared_ptr<Runtime>;

/// Raises the Python exception that stands for `status` (ronde._errors). Only for errors.
/// Threads: the GIL is held.
[[noreturn]] void raise(const Status& status);

/// Raises unless ok.
inline void check(const Status& status) {
  if (!status.ok()) raise(status);
}

/// The value, or raises.
template <typename T>
T unwrap(Result<T> result) {
  if (!result.ok()) raise(result.status());
  return std::move(result).value();
}

/// Waits that Python may interrupt: runs signal handlers, and ends the wait where one raised.
/// `timeout_s` < 0 means without end.
WaitOptions interruptible(double timeout_s);

/// Raises what a signal handler raised during a wait, otherwise `status` unless it is ok.
void check_wait(const Status& status);

/// The value of a call that blocks: it is made without the GIL, and Python may interrupt it.
template <typename Call>
auto waited(const Call& call) {
  const WaitOptions options = interruptible(-1.0);
  auto result = [&] {
    const pybind11::gil_scoped_release unlocked;
    return call(options);
  }();
  if constexpr (std::is_same_v<decltype(result), Status>) {
    check_wait(result);
  } else {
    check_wait(result.status());
    return std::move(result).value();
  }
}

/// "file:line" of the innermost Python frame outside the folders given to skip_frames_of();
/// empty where there is none. Threads: the GIL is held.
std::string call_site();

/// Reads the lines of all Python threads. Threads: the GIL is held here, but not by callers of the
/// result.
diagnosis::ScriptSource script_source();

void bind_runtime(pybind11::module_& module);
void bind_operation(pybind11::module_& module);
void bind_sent_gradients(pybind11::module_& module);
void bind_submit(pybind11::module_& module);
void bind_torch_memory(pybind11::module_& module);
void bind_messages(pybind11::module_& module);
void bind_call_site(pybind11::module_& module);
void bind_codecs(pybind11::module_& module);
void bind_elastic(pybind11::module_& module);
void bind_elastic_progress(pybind11::module_& module);
void bind_checkpoint_files(pybind11::module_& module);
void bind_commit_store(pybind11::module_& module);
void bind_fingerprint(pybind11::module_& module);

}  // namespace ronde::python
