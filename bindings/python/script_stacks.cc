// Reads the lines of all Python threads for dumps (ronde._stacks).
#include <pybind11/stl.h>

#include <exception>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/python/bind.h"

namespace py = pybind11;

namespace ronde::python {
namespace {

using Lines = std::vector<std::tuple<int, std::string, std::string, std::vector<std::string>>>;

/// Waits for the GIL.
Result<std::vector<DumpScriptThread>> read_lines(const py::object& lines) {
  const py::gil_scoped_acquire locked;
  try {
    std::vector<DumpScriptThread> threads;
    for (auto& [tid, name, line, frames] : lines().cast<Lines>()) {
      threads.push_back({tid, std::move(name), std::move(line), std::move(frames)});
    }
    return threads;
  } catch (const std::exception& error) {
    return Status(Code::kInternal, std::string("Python's frames cannot be read: ") + error.what());
  }
}

}  // namespace

diagnosis::ScriptSource script_source() {
  // Never destroyed: at exit there is no interpreter left to drop it in.
  static const auto* lines = new py::object(py::module_::import("ronde._stacks").attr("lines"));
  return [] { return read_lines(*lines); };
}

}  // namespace ronde::python
