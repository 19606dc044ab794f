// Hashes of arrays, by which ranks compare them.
#include "bindings/python/bind.h"
#include "core/base/bytes.h"

namespace py = pybind11;

namespace ronde::python {
namespace {

std::uint64_t fingerprint(const py::buffer& array) {
  const py::buffer_info info = array.request();
  const auto size_bytes = static_cast<std::size_t>(info.size * info.itemsize);
  const std::span bytes(static_cast<const std::byte*>(info.ptr), size_bytes);
  const py::gil_scoped_release unlocked;
  return hash64(bytes);
}

}  // namespace

void bind_fingerprint(py::module_& module) {
  module.def("fingerprint", &fingerprint, py::arg("array"),
             "The 64-bit hash of a contiguous array's bytes; the same on all ranks.");
}

}  // namespace ronde::python
