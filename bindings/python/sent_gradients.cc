#include "bindings/python/sent_gradients.h"

#include <pybind11/stl.h>

#include <cstddef>
#include <utility>

#include "bindings/python/bind.h"

namespace py = pybind11;

namespace ronde::python {
namespace {

/// The names of attributes, made once.
struct Names {
  PyObject* grad = PyUnicode_InternFromString("grad");
  PyObject* version = PyUnicode_InternFromString("_version");
};
const Names& names() {
  static const Names* const made = new Names;
  return *made;
}

py::object attribute(py::handle object, PyObject* name) {
  PyObject* const found = PyObject_GetAttr(object.ptr(), name);
  if (found == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(found);
}

long version_of(py::handle tensor) {
  return PyLong_AsLong(attribute(tensor, names().version).ptr());
}

std::uintptr_t address(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }

}  // namespace

bool SentGradients::read(std::size_t place, One& one) const {
  if (codes_[place] < 0) return false;
  one.tensor = attribute(parameters_[place], names().grad);
  if (one.tensor.is_none()) return false;
  std::optional<TorchMemory> memory = memory_of(one.tensor);
  if (!memory || memory->meta.dtype != static_cast<DType>(codes_[place])) return false;
  one.memory = std::move(*memory);
  one.version = version_of(one.tensor);
  return true;
}

bool SentGradients::take(Owners& in_flight, const py::object& owner) {
  taken_.clear();
  std::vector<One> found(codes_.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!read(i, found[i])) return false;
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].memory.data == nullptr ||
        in_flight.by_address.emplace(address(found[i].memory.data), owner).second)
      continue;
    for (std::size_t mine = 0; mine < i; ++mine)
      in_flight.by_address.erase(address(found[mine].memory.data));
    return false;
  }
  taken_ = std::move(found);
  return true;
}

py::list SentGradients::tensors() const {
  py::list all(taken_.size());
  for (std::size_t i = 0; i < taken_.size(); ++i) all[i] = taken_[i].tensor;
  return all;
}

py::list SentGradients::changed() {
  py::list places;
  const std::vector<One> taken = std::exchange(taken_, {});
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const One& one = taken[i];
    const py::object now = attribute(parameters_[i], names().grad);
    const bool same =
        now.is(one.tensor) && version_of(now) == one.version && address_of(now) == one.memory.data;
    if (same) continue;
    places.append(py::make_tuple(i, one.version, address(one.memory.data)));
  }
  return places;
}

void bind_sent_gradients(py::module_& module) {
  py::class_<Owners>(module, "Owners", "Which memory is in flight, and with whom, by address.")
      .def(py::init<>())
      .def("clear", [](Owners& all) { all.by_address.clear(); })
      .def("set", [](Owners& all, std::uintptr_t at,
                     py::object owner) { all.by_address[at] = std::move(owner); })
      .def(
          "get",
          [](const Owners& all, std::uintptr_t at) -> py::object {
            const auto found = all.by_address.find(at);
            return found == all.by_address.end() ? py::none() : found->second;
          },
          "None where the memory is not in flight.");
  py::class_<SentGradients>(module, "SentGradients",
                            "PyTorch's gradients of some parameters, while they are in flight.")
      .def(py::init<py::list, std::vector<int>>(), py::arg("parameters"), py::arg("codes"))
      .def("take", &SentGradients::take, py::arg("in_flight"), py::arg("owner"),
           "Reads the gradients, adds their addresses to `in_flight`. False, with nothing done, "
           "unless each is a dense, contiguous tensor in host memory of its own.")
      .def("tensors", &SentGradients::tensors, "The tensors that were taken.")
      .def("changed", &SentGradients::changed,
           "(place, version, address) of those that are others, were written or have moved. Lets "
           "all go.");
}

}  // namespace ronde::python
