// Hashes of tensors, by which ranks compare them, and the differences of ranks.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <utility>
#include <vector>

#include "bindings/python/bind.h"
#include "bindings/runtime/replicas.h"
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

using Table = py::array_t<std::uint64_t, py::array::c_style | py::array::forcecast>;

/// `tables`: pairs of key and hash of each rank.
py::list differences(const std::vector<int>& ranks, const std::vector<Table>& tables) {
  std::vector<std::vector<HashedTensor>> hashed;
  for (const Table& table : tables) {
    auto& rows = hashed.emplace_back();
    for (py::ssize_t i = 0; i < table.shape(0); ++i)
      rows.push_back({table.at(i, 0), table.at(i, 1)});
  }
  py::list found;
  for (const ReplicaDifference& one : find_differences(ranks, hashed)) {
    found.append(py::make_tuple(one.key, one.ranks, one.usual, one.holder, one.missing));
  }
  return found;
}

std::string described_difference(const std::vector<int>& ranks, int usual, bool missing,
                                 const std::string& label) {
  ReplicaDifference difference;
  difference.ranks = ranks;
  difference.usual = usual;
  difference.missing = missing;
  return describe(difference, label);
}

}  // namespace

void bind_fingerprint(py::module_& module) {
  module.def("fingerprints", &fingerprints, py::arg("memories"),
             "The 64-bit hashes of arrays, or of memory as (address, bytes); of None: 0. The same "
             "on all ranks. Takes each from the iterable when the one before is hashed.");
  module.def("replica_differences", &differences, py::arg("ranks"), py::arg("tables"),
             "(key, ranks, usual, holder, missing) of each tensor that ranks do not have alike; "
             "tables: pairs of key and hash of each rank.");
  module.def("describe_difference", &described_difference, py::arg("ranks"), py::arg("usual"),
             py::arg("missing"), py::arg("label"),
             "Names the tensor, and the ranks that have another one or other values.");
  module.def(
      "list_ranks", [](const std::vector<int>& ranks) { return list_ranks(ranks); },
      py::arg("ranks"), "Names the ranks, some of them if there are many.");
}

}  // namespace ronde::python
