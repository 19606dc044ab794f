// Status -> Python exceptions, and waits that let Python's signal handlers run.
#include <pybind11/stl.h>

#include <chrono>

#include "bindings/exit_log/exit_log.h"
#include "bindings/python/bind.h"

namespace py = pybind11;

namespace ronde::python {
namespace {

/// Called about every 50 ms while a thread waits without the GIL.
Status run_signal_handlers() {
  py::gil_scoped_acquire locked;
  if (PyErr_CheckSignals() == 0) return {};
  return {Code::kInterrupted, "a signal handler raised"};
}

/// Names of files and other ranks' texts may have bytes that are no characters.
py::object text_of(const std::string& bytes) {
  return py::reinterpret_steal<py::object>(PyUnicode_DecodeUTF8(
      bytes.data(), static_cast<py::ssize_t>(bytes.size()), "backslashreplace"));
}

}  // namespace

void raise(const Status& status) {
  const FailedRank failed = status.failed_rank().value_or(FailedRank());
  const py::object error =
      py::module_::import("ronde._errors")
          .attr("make")(static_cast<int>(status.code()), text_of(with_exit(status).message()),
                        status.origin(), failed.rank, text_of(failed.host), failed.pid);
  PyErr_SetObject(py::type::handle_of(error).ptr(), error.ptr());
  throw py::error_already_set();
}

WaitOptions interruptible(double timeout_s) {
  WaitOptions options;
  if (timeout_s >= 0) {
    options.deadline = std::chrono::steady_clock::now() +
                       std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                           std::chrono::duration<double>(timeout_s));
  }
  options.interrupt = run_signal_handlers;
  return options;
}

void check_wait(const Status& status) {
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  check(status);
}

}  // namespace ronde::python
