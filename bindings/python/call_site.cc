// Finds the line of the user's program that a call came from, for error messages.
#include <Python.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/python/bind.h"

namespace py = pybind11;

namespace ronde::python {
namespace {

/// Folders, ending in "/", and files whose frames are not the user's. Guarded by the GIL.
std::vector<std::string>& library_places() {
  static auto* places = new std::vector<std::string>();
  return *places;
}

/// A file's name as text that can be sent: bytes that are no characters are shown as escapes.
std::string printable(PyObject* name) {
  if (const char* text = PyUnicode_AsUTF8(name); text != nullptr) return text;
  PyErr_Clear();
  const auto bytes = py::reinterpret_steal<py::object>(
      PyUnicode_AsEncodedString(name, "utf-8", "backslashreplace"));
  if (!bytes) throw py::error_already_set();
  return PyBytes_AsString(bytes.ptr());
}

/// The end of a file's name that is longer than a request may carry.
std::string_view shortened(std::string_view file) {
  constexpr std::size_t kMostBytes = 900;
  if (file.size() <= kMostBytes) return file;
  file.remove_prefix(file.size() - kMostBytes);
  return file.substr(std::min(file.find('/'), file.size()));
}

bool is_library(std::string_view file) {
  for (const std::string& place : library_places()) {
    if (file.substr(0, place.size()) == place) return true;
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
  last.site = std::string(shortened(file)) + ":" + std::to_string(PyFrame_GetLineNumber(frame));
  return last.site;
}

}  // namespace

void bind_call_site(py::module_& module) {
  module.def("call_site", &call_site, "file:line of the innermost frame of the user's code.");
  module.def(
      "skip_frames_of",
      [](const py::str& place) {
        std::string path = printable(place.ptr());
        if (!path.ends_with(".py")) path += "/";
        library_places().push_back(std::move(path));
      },
      "Frames of files under this folder, or of this file, are no longer taken for the user's.");
}

std::string call_site() {
  PyFrameObject* first = PyEval_GetFrame();
  if (first == nullptr) return {};
  py::object frame = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(first));
  while (frame) {
    auto* raw = reinterpret_cast<PyFrameObject*>(frame.ptr());
    PyCodeObject* code = PyFrame_GetCode(raw);
    const char* known = PyUnicode_AsUTF8(code->co_filename);  // kept by the name, so it is cheap
    if (known == nullptr) PyErr_Clear();
    const std::string escaped = known == nullptr ? printable(code->co_filename) : std::string();
    const std::string_view file = known == nullptr ? std::string_view(escaped) : known;
    const std::string site = is_library(file) ? std::string() : describe(raw, code, file);
    Py_DECREF(code);
    if (!site.empty()) return site;
    frame = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(raw)));
  }
  return {};
}

}  // namespace ronde::python
