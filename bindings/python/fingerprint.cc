// Hashes of tensors, by which ranks compare them.
#include <pybind11/numpy.h>

#include <utility>
#include <vector>

#include "bindings/python/bind.h"
#include "core/base/bytes.h"

namespace py = pybind11;

namespace ronde::python {
namespace {

std::uint64_t hash_unlocked(const void* address, std::size_t size_bytes) {
  const std::span bytes(static_cast<const std::byte*>(address), size_bytes);
  const py::gil_scoped_release unlocked;
  return hash64(bytes);
}

/// `memory`: an object with a contiguous buffer, (address, bytes), or None, whose hash is 0.
std::uint64_t fingerprint(const py::handle& memory) {
  if (memory.is_none()) return 0;
  if (py::isinstance<py::tuple>(memory)) {
    const auto [address, size] = memory.cast<std::pair<std::uintptr_t, std::size_t>>();
    return hash_unlocked(reinterpret_cast<const void*>(address), size);
  }
  const py::buffer_info info = memory.cast<py::buffer>().request();
  return hash_unlocked(info.ptr, static_cast<std::size_t>(info.size * info.itemsize));
}

/// One thread hashes at the speed of memory, and the host's other ranks hash at the same time.
py::array_t<std::uint64_t> fingerprints(const py::iterable& memories) {
  std::vector<std::uint64_t> hashes;
  for (const py::handle memory : memories) hashes.push_back(fingerprint(memory));
  return py::array_t<std::uint64_t>(static_cast<py::ssize_t>(hashes.size()), hashes.data());
}

}  // namespace

void bind_fingerprint(py::module_& module) {
  module.def("fingerprints", &fingerprints, py::arg("memories"),
             "The 64-bit hashes of arrays, or of memory as (address, bytes); of None: 0. The same "
             "on all ranks. Takes each from the iterable when the one before is hashed.");
}

}  // namespace ronde::python
