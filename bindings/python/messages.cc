// Binds point-to-point messages: send and recv of raw memory between two ranks.
#include <string>
#include <utility>

#include "bindings/python/operation.h"
#include "bindings/runtime/operations.h"

namespace py = pybind11;

namespace ronde::python {
namespace {

/// Memory of an object with the buffer protocol, or of (address, bytes).
std::span<std::byte> bytes_of(const py::tuple& address_and_bytes) {
  return {reinterpret_cast<std::byte*>(address_and_bytes[0].cast<std::uintptr_t>()),
          address_and_bytes[1].cast<std::size_t>()};
}

std::unique_ptr<Handle> send(const RuntimePtr& runtime, int to, std::int64_t tag,
                             const py::tuple& memory, py::object keep, const std::string& type) {
  Pins pins;
  pins.add(keep);
  return std::make_unique<Handle>(
      InUse{runtime, unwrap(runtime->operations().send(to, tag, bytes_of(memory), type)),
            std::move(keep), std::move(pins), nullptr});
}

std::unique_ptr<Handle> recv(const RuntimePtr& runtime, int from, std::int64_t tag,
                             const py::tuple& memory, py::object keep, const std::string& type) {
  auto message = std::make_shared<Message>();
  auto operation =
      unwrap(runtime->operations().recv(from, tag, bytes_of(memory), message.get(), type));
  Pins pins;
  pins.add(keep);
  return std::make_unique<Handle>(
      InUse{runtime, std::move(operation), std::move(keep), std::move(pins), std::move(message)});
}

}  // namespace

void bind_messages(py::module_& module) {
  module.def("send", &send, py::arg("runtime"), py::arg("to"), py::arg("tag"), py::arg("memory"),
             py::arg("keep"), py::arg("type") = "",
             "Starts sending (address, bytes) to a rank. A receive of elements of another type "
             "fails; empty: any.");
  module.def("recv", &recv, py::arg("runtime"), py::arg("source"), py::arg("tag"),
             py::arg("memory"), py::arg("keep"), py::arg("type") = "",
             "Starts receiving into (address, bytes); source -1 means from any rank.");
}

}  // namespace ronde::python
