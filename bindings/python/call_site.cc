// Finds the line of the user's program that a call came from, for error messages.
#include <Python.h>

#include <string>
#include <string_view>
#include <vector>

#include "bindings/python/bind.h"

namespace py = pybind11;

namespace ronde::python {
namespace {

/// Folders whose frames are not the user's, each ending in "/". Guarded by the GIL.
std::vector<std::string>& library_folders() {
  static auto* folders = new std::vector<std::string>();
  return *folders;
}

bool is_library(std::string_view file) {
  for (const std::string& folder : library_folders()) {
    if (file.substr(0, folder.size()) == folder) return true;
  }
  return false;
}

/// The line of its code at which a frame is.
int instruction_of(PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030B0000
  return PyFrame_GetLasti(frame);
#else
  static_cast<void>(frame);
  return -1;
#endif
}

/// The last result. A loop's calls come from one place, and lines take long to count.
struct Found {
  py::object code;
  int instruction = -1;
  std::string site;
};

/// Guarded by the GIL. Never destroyed: at exit there is no interpreter left to drop it in.
Found& last_found() {
  static auto* found = new Found();
  return *found;
}

/// "file:line" of a frame in `file`.
std::string describe(PyFrameObject* frame, PyCodeObject* code, std::string_view file) {
  Found& last = last_found();
  const int instruction = instruction_of(frame);
  if (instruction >= 0 && last.instruction == instruction &&
      last.code.ptr() == reinterpret_cast<PyObject*>(code)) {
    return last.site;
  }
  last.code = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(code));
  last.instruction = instruction;
  last.site = std::string(file) + ":" + std::to_string(PyFrame_GetLineNumber(frame));
  return last.site;
}

}  // namespace

void bind_call_site(py::module_& module) {
  module.def("call_site", &call_site, "file:line of the innermost frame of the user's code.");
  module.def(
      "skip_frames_of",
      [](const std::string& folder) { library_folders().push_back(folder + "/"); },
      "Frames of files under this folder are no longer taken for the user's.");
}

std::string call_site() {
  PyFrameObject* first = PyEval_GetFrame();
  if (first == nullptr) return {};
  py::object frame = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(first));
  while (frame) {
    auto* raw = reinterpret_cast<PyFrameObject*>(frame.ptr());
    PyCodeObject* code = PyFrame_GetCode(raw);
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    if (file == nullptr) PyErr_Clear();
    std::string site;
    if (file != nullptr && !is_library(file)) {
      site = describe(raw, code, file);
    }
    Py_DECREF(code);
    if (!site.empty()) return site;
    frame = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(raw)));
  }
  return {};
}

}  // namespace ronde::python
