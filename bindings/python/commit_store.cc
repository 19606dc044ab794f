// Binds CommitStore: the committed state of a rank of an elastic job, as memory views.
#include "bindings/elastic/commit_store.h"

#include <pybind11/stl.h>

#include <utility>
#include <vector>

#include "bindings/python/bind.h"

namespace py = pybind11;

namespace ronde::python {
namespace {

using elastic::CommitStore;
using elastic::StoredSegment;

/// A segment with the buffer protocol: bytes.
struct CommitSegment {
  StoredSegment segment;
  bool writable = false;
};

py::buffer_info segment_info(CommitSegment& one) {
  return py::buffer_info(reinterpret_cast<std::uint8_t*>(one.segment.bytes.data()),
                         static_cast<py::ssize_t>(one.segment.bytes.size()), !one.writable);
}

/// Views that keep their memory.
py::list views(std::vector<StoredSegment> segments, bool writable) {
  py::list result;
  for (StoredSegment& one : segments) {
    result.append(py::memoryview(py::cast(CommitSegment{std::move(one), writable})));
  }
  return result;
}

}  // namespace

void bind_commit_store(py::module_& module) {
  py::class_<CommitSegment>(module, "CommitSegment", py::buffer_protocol(),
                            "Memory of one segment of a copy.")
      .def_buffer(&segment_info);
  py::class_<CommitStore>(module, "CommitStore",
                          "The last two copies of a rank's state, each whole or not there.")
      .def(py::init<>())
      .def(
          "begin",
          [](CommitStore& store, const std::vector<std::size_t>& sizes) {
            return views(unwrap(store.begin(sizes)), true);
          },
          py::arg("sizes"),
          "Begins a copy in place of the older one: a writable view of each size, in bytes.")
      .def(
          "commit", [](CommitStore& store, std::uint64_t step) { check(store.commit(step)); },
          py::arg("step"), "Declares the copy whole; steps grow.")
      .def("steps", &CommitStore::steps, "The steps of whole copies, newest first.")
      .def(
          "read",
          [](CommitStore& store, std::uint64_t step, bool writable) {
            return views(unwrap(store.read(step)), writable);
          },
          py::arg("step"), py::arg("writable") = false,
          "Views of the copy of a step. Drops newer copies.")
      .def("clear", &CommitStore::clear, "Drops both copies. Their memory is used again.");
}

}  // namespace ronde::python
