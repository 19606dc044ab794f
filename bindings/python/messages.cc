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

/// A receive in flight, and what it learns.
struct Receive {
  std::shared_ptr<Message> message;
  std::unique_ptr<Handle> handle;

  void wait(double timeout_s) { handle->wait(timeout_s); }
};

std::unique_ptr<Handle> send(const RuntimePtr& runtime, int to, std::int64_t tag,
                             const py::tuple& memory, py::object keep, const std::string& type) {
  Pins pins;
  pins.add(keep);
  return std::make_unique<Handle>(
      runtime, unwrap(runtime->operations().send(to, tag, bytes_of(memory), type)), std::move(keep),
      std::move(pins));
}

std::unique_ptr<Receive> recv(const RuntimePtr& runtime, int from, std::int64_t tag,
                              const py::tuple& memory, py::object keep, const std::string& type) {
  auto message = std::make_shared<Message>();
  // The message is written when the operation ends, so it lives as long as the memory does.
  py::capsule owner(new std::shared_ptr<Message>(message),
                    [](void* pointer) { delete static_cast<std::shared_ptr<Message>*>(pointer); });
  auto operation =
      unwrap(runtime->operations().recv(from, tag, bytes_of(memory), message.get(), type));
  Pins pins;
  pins.add(keep);
  return std::make_unique<Receive>(Receive{
      message, std::make_unique<Handle>(runtime, std::move(operation),
                                        py::make_tuple(std::move(keep), owner), std::move(pins))});
}

}  // namespace

void bind_messages(py::module_& module) {
  py::class_<Receive>(module, "Receive", "A message being received.")
      .def("done", [](const Receive& receive) { return receive.handle->done(); })
      .def("wait", &Receive::wait, py::arg("timeout") = -1.0)
      .def_property_readonly("source", [](const Receive& r) { return r.message->source; })
      .def_property_readonly("tag", [](const Receive& r) { return r.message->tag; })
      .def_property_readonly("bytes", [](const Receive& r) { return r.message->bytes; });
  module.def("send", &send, py::arg("runtime"), py::arg("to"), py::arg("tag"), py::arg("memory"),
             py::arg("keep"), py::arg("type") = "",
             "Starts sending (address, bytes) to a rank. A receive of elements of another type "
             "fails; empty: any.");
  module.def("recv", &recv, py::arg("runtime"), py::arg("source"), py::arg("tag"),
             py::arg("memory"), py::arg("keep"), py::arg("type") = "",
             "Starts receiving into (address, bytes); source -1 means from any rank.");
}

}  // namespace ronde::python
