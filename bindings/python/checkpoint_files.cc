// Binds CheckpointFiles: the files to which a state of an elastic job is written.
#include "bindings/elastic/checkpoint_files.h"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/python/bind.h"

namespace py = pybind11;

namespace ronde::python {
namespace {

using elastic::CheckpointFiles;
using Path = CheckpointFiles::Path;

py::bytes read_state(CheckpointFiles& files, std::int64_t step) {
  Result<std::string> contents = [&] {
    const py::gil_scoped_release unlocked;
    return files.read(step);
  }();
  return unwrap(std::move(contents));
}

void write_state(CheckpointFiles& files, std::int64_t step, const py::buffer& contents) {
  const py::buffer_info info = contents.request();
  const auto* const bytes = static_cast<const std::byte*>(info.ptr);
  const py::gil_scoped_release unlocked;
  files.write(step, {bytes, static_cast<std::size_t>(info.size * info.itemsize)});
}

void write_state_folder(CheckpointFiles& files, std::int64_t step, const py::function& fill) {
  const py::gil_scoped_release unlocked;
  files.write_folder(step, [&](const Path& folder) {
    const py::gil_scoped_acquire locked;
    try {
      fill(folder);
    } catch (const py::error_already_set& error) {
      throw std::runtime_error(py::str(error.value()));
    }
  });
}

/// Names of files in them may be any bytes.
py::list take_problems(CheckpointFiles& files, bool first_on_host) {
  py::list texts;
  for (const std::string& text : files.take_problems(first_on_host)) {
    texts.append(py::reinterpret_steal<py::str>(
        PyUnicode_DecodeFSDefaultAndSize(text.data(), std::ssize(text))));
  }
  return texts;
}

}  // namespace

void bind_checkpoint_files(py::module_& module) {
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  py::class_<CheckpointFiles>(module, "CheckpointFiles", "The checkpoint files of one state.")
      .def(py::init<Path, std::vector<std::string>, int, bool>(), py::arg("path"),
           py::arg("suffixes"), py::arg("keep"), py::arg("needs_whole"))
      .def("any", &CheckpointFiles::any, "True if there are files, whole or not.")
      .def("newest_step", &CheckpointFiles::newest_step, Unlocked())
      .def("damaged", &CheckpointFiles::damaged, Unlocked())
      .def("tell", &CheckpointFiles::tell, py::arg("facts"), Unlocked(),
           "Adds what this rank can load.")
      .def("whole", &CheckpointFiles::whole, py::arg("step"), Unlocked(),
           "The whole file or folder of a step.")
      .def("read", &read_state, py::arg("step"), "The state in the whole file of a step.")
      .def("write", &write_state, py::arg("step"), py::arg("contents"))
      .def("write_folder", &write_state_folder, py::arg("step"), py::arg("fill"))
      .def("note_unwritten", &CheckpointFiles::note_unwritten, py::arg("step"), py::arg("why"))
      .def("take_problems", &take_problems, py::arg("first_on_host"),
           "The problems since the last call.");
}

}  // namespace ronde::python
