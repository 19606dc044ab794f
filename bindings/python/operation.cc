// Binds Handle (an operation in flight) and Buffer (an output that the operation allocated).
#include "bindings/python/operation.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <list>
#include <utility>
#include <vector>

#include "bindings/python/blocked_wait.h"
#include "bindings/python/torch_memory.h"
#include "bindings/runtime/groups/group_factory.h"
#include "bindings/runtime/operations.h"

namespace py = pybind11;

namespace ronde::python {
namespace {

/// The memory of operations whose handles were dropped. The GIL guards it. It is never destroyed:
/// at exit there is no interpreter left to drop references in.
std::list<InUse>& dropped() {
  static auto* list = new std::list<InUse>();
  return *list;
}

/// Memory of one owned output, or that was asked for; with the buffer protocol: bytes, writable.
struct Buffer {
  std::shared_ptr<std::byte> data;
  std::size_t bytes = 0;
  bool on_device = false;
};

/// The memory as CUDA libraries exchange it: bytes, writable.
py::dict cuda_array_interface(const Buffer& buffer) {
  if (!buffer.on_device) throw py::attribute_error("this memory is the host's");
  py::dict interface;
  interface["shape"] = py::make_tuple(buffer.bytes);
  interface["typestr"] = "|u1";
  interface["data"] = py::make_tuple(reinterpret_cast<std::uintptr_t>(buffer.data.get()), false);
  interface["version"] = 3;
  return interface;
}

/// True if nothing uses the memory any more. An error of the device counts: it uses nothing.
bool is_over(const Operation& operation) {
  if (!operation.done()) return false;
  if (!operation.completion()) return true;
  const auto reached = operation.completion()->reached();
  return !reached.ok() || *reached;
}

py::buffer_info buffer_info(Buffer& buffer) {
  if (buffer.on_device) throw py::type_error("this memory is a device's");
  return py::buffer_info(reinterpret_cast<std::uint8_t*>(buffer.data.get()),
                         static_cast<py::ssize_t>(buffer.bytes), /*readonly=*/false);
}

/// (buffer or None, shape) of one owned output.
py::tuple output(const Handle& handle, std::size_t index) {
  auto& outputs = handle.operation()->owned_outputs();
  if (index >= outputs.size()) return py::make_tuple(py::none(), py::none());
  const OwnedOutput& owned = outputs[index];
  const DType dtype = handle.operation()->submission().request.tensors[index].dtype;
  const std::size_t bytes = static_cast<std::size_t>(element_count(owned.shape)) * size_of(dtype);
  py::tuple shape = py::tuple(py::cast(owned.shape));
  if (owned.data == nullptr) return py::make_tuple(py::none(), shape);
  const bool on_device = handle.operation()->submission().request.device.kind == DeviceKind::kCuda;
  return py::make_tuple(Buffer{owned.data, bytes, on_device}, shape);
}

/// The address of a storage of PyTorch; 0 if it has none.
std::uintptr_t storage_address(py::handle storage) {
  static PyObject* const method = PyUnicode_InternFromString("data_ptr");
  const auto found =
      py::reinterpret_steal<py::object>(PyObject_CallMethodNoArgs(storage.ptr(), method));
  if (!found) throw py::error_already_set();
  return found.cast<std::uintptr_t>();
}

/// A limit that Python gives. Raises as the package does for other arguments.
double seconds(const py::object& timeout) {
  if (timeout.is_none()) return -1.0;
  try {
    return timeout.cast<double>();
  } catch (const py::cast_error&) {
    py::module_::import("ronde._calls.argument_checks").attr("check")(py::arg("timeout") = timeout);
    throw py::type_error("timeout is of a wrong type");
  }
}

}  // namespace

void Pins::add_storage(py::object storage) {
  const std::uintptr_t address = storage_address(storage);
  storages_.emplace_back(std::move(storage), address);
}

bool Pins::are_freed() const {
  return std::ranges::any_of(
      storages_, [](const auto& one) { return storage_address(one.first) != one.second; });
}

void Pins::clear() {
  references_.clear();
  storages_.clear();
}

void Pins::add(py::handle object) {
  if (PyTuple_CheckExact(object.ptr())) {
    constexpr Py_ssize_t kOwner = 3;  // of a tuple of four: see bind_submit()
    if (PyTuple_GET_SIZE(object.ptr()) != kOwner + 1) return;
    PyObject* const owner = PyTuple_GET_ITEM(object.ptr(), kOwner);
    return add_storage(py::reinterpret_borrow<py::object>(owner));
  }
  if (!py::isinstance<py::array>(object)) return;
  const auto refer = [this](py::handle array) {
    PyObject* const reference = PyWeakref_NewRef(array.ptr(), nullptr);
    if (reference == nullptr) throw py::error_already_set();
    references_.push_back(py::reinterpret_steal<py::object>(reference));
  };
  refer(object);
  const py::object base = py::reinterpret_borrow<py::array>(object).base();
  if (base && py::isinstance<py::array>(base)) refer(base);
}

Handle::~Handle() {
  if (operation()->done()) *seen_ = *seen_ || !operation()->status().ok();
  if (!is_over(*operation())) dropped().push_back(std::move(in_use_));
}

bool Handle::done() {
  const bool ended = operation()->done();
  *seen_ = *seen_ || ended;
  if (ended) let_go();
  return ended;
}

void Handle::let_go() {
  freed_ = freed_ || in_use_.pins.are_freed();
  in_use_.pins.clear();
}

void Handle::await(double timeout_s, const Together* together) {
  Status status;
  if (operation()->done()) {
    status = operation()->status();
  } else {
    py::gil_scoped_release unlocked;
    if (timeout_s < 0) {
      const std::span<const OperationPtr> alone(&operation(), 1);
      status = BlockedWait(*in_use_.runtime, together == nullptr ? alone : together->operations)
                   .wait(operation());
    } else {
      status = in_use_.runtime->operations().wait(operation(), interruptible(timeout_s));
    }
  }
  *seen_ = operation()->done();
  if (*seen_) let_go();
  check_wait(status);
  if (!freed_) return;
  raise({Code::kInvalidArgument,
         "a tensor was given other memory (resize_()) while an operation was using it, so that the "
         "result is wrong; wait for the operation first"});
}

py::object Handle::wait(const py::object& self, const py::object& timeout,
                        const Together* together) {
  if (result_) return result_;
  await(seconds(timeout), together);
  py::object result = made(self);
  result_ = result;
  finish_ = py::object();
  further_.clear();
  return result;
}

/// The result of the functions. They may let other threads wait for the same handle.
py::object Handle::made(const py::object& self) const {
  if (checks_place_) check_unmoved(in_use_.keep, operation()->submission().outputs.front());
  const py::object finish = finish_;
  py::object result = finish ? finish(self) : in_use_.keep;
  if (further_.empty()) return result;
  const std::vector<py::object> further = further_;
  for (const py::object& function : further) result = function(result);
  return result;
}

void Handle::order_after(std::uintptr_t stream) {
  check(in_use_.runtime->operations().order_after(operation(), reinterpret_cast<void*>(stream)));
}

void Handle::judge(const std::string& tensor, const std::string& outcome) const {
  check(in_use_.runtime->operations().judge(*operation(), tensor, outcome));
}

const Message& Handle::message() const {
  if (in_use_.message == nullptr) throw py::type_error("only a receive has a message");
  return *in_use_.message;
}

void sweep_dropped() {
  if (dropped().empty()) return;
  std::list<InUse> finished;
  for (auto it = dropped().begin(); it != dropped().end();) {
    auto next = std::next(it);
    if (is_over(*it->operation)) finished.splice(finished.end(), dropped(), it);
    it = next;
  }
}

Together::Together(const std::vector<const Handle*>& handles) {
  operations.reserve(handles.size());
  for (const Handle* handle : handles) operations.push_back(handle->operation());
}

namespace {

py::object finding_of(const Handle& handle) {
  const NonfiniteFinding& finding = handle.operation()->finding();
  if (!finding.exists()) return py::none();
  return py::make_tuple(finding.tensor, finding.odd.element);
}

void bind_outcomes(py::class_<Handle>& binding) {
  binding
      .def_property_readonly(
          "recv_splits", [](const Handle& handle) { return handle.operation()->recv_splits(); },
          "alltoall: rows received from each member.")
      .def_property_readonly(
          "indices",
          [](const Handle& handle) {
            const std::vector<std::int64_t>& indices = handle.operation()->recv_splits();
            return py::array_t<std::int64_t>(static_cast<py::ssize_t>(indices.size()),
                                             indices.data());
          },
          "sparse_allreduce: the index of each row of the result, an array of int64.")
      .def_property_readonly(
          "last_joined", [](const Handle& handle) { return handle.operation()->last_joined(); },
          "join: the rank that joined last.")
      .def_property_readonly(
          "source", [](const Handle& handle) { return handle.message().source; },
          "recv: the rank that sent the message.")
      .def_property_readonly(
          "bytes", [](const Handle& handle) { return handle.message().bytes; },
          "recv: the message's size.");
}

void bind_handle(py::module_& module) {
  py::class_<Handle> binding(module, "Handle",
                             "An operation in flight. Keeps the tensors alive until it has ended.");
  bind_outcomes(binding);
  binding
      .def("done", &Handle::done, "True if it has ended, with or without an error; never blocks.")
      .def(
          "wait",
          [](const py::object& self, const py::object& timeout) {
            return self.cast<Handle&>().wait(self, timeout, nullptr);
          },
          py::arg("timeout") = py::none(),
          "Blocks until it has ended and returns the result, or raises its error.\n\ntimeout: "
          "seconds after which TimeoutError is raised; the operation then goes on.")
      // A form of its own: pybind11 takes longer to pass None for it than small tensors travel.
      .def(
          "wait",
          [](const py::object& self, const Together& together) {
            return self.cast<Handle&>().wait(self, py::none(), &together);
          },
          py::kw_only(), py::arg("together"),
          "together: other operations to wait for, see ronde._core.Together.")
      .def(
          "__call__",
          [](const py::object& self) {
            return self.cast<Handle&>().wait(self, py::none(), nullptr);
          },
          "The same as wait(). Horovod's sparse handles are called.")
      .def(
          "finish",
          [](py::object self, py::object function) {
            self.cast<Handle&>().finish(std::move(function));
            return self;
          },
          py::arg("function"), "Lets a function make the result, of the handle. Returns this.")
      .def(
          "then",
          [](py::object self, py::object function) {
            self.cast<Handle&>().then(std::move(function));
            return self;
          },
          py::arg("function"), "Passes the result through one more function. Returns this.")
      .def("order_after", &Handle::order_after, py::arg("stream"),
           "Makes later work of a CUDA stream come after the results. Nothing for host memory.")
      .def("output", &output, py::arg("index") = 0,
           "(buffer or None, shape) of an output that the caller gave no memory for.")
      .def_property_readonly(
          "finding", &finding_of,
          "(tensor, element) of the first value that is not finite, or None; once done.")
      .def("judge", &Handle::judge, py::arg("tensor"), py::arg("outcome"),
           "Warns of the finding that it holds, or raises it. `tensor`: that tensor's name.\n\n"
           "outcome: what else follows from it, for the text.");
}

}  // namespace

void bind_operation(py::module_& module) {
  module.def(
      "allocate",
      [](Runtime& runtime, std::size_t bytes) {
        return Buffer{unwrap(runtime.groups().allocate(bytes)), bytes, false};
      },
      py::arg("runtime"), py::arg("bytes"), "Memory that collectives need not copy; zeros.");
  py::class_<Buffer>(module, "Buffer", py::buffer_protocol(),
                     "Memory of an output that its operation allocated.")
      .def_buffer(&buffer_info)
      .def_property_readonly("__cuda_array_interface__", &cuda_array_interface,
                             "Memory of a device, for torch, CuPy and others.");
  py::class_<Together>(module, "Together",
                       "Operations all of which their thread waits for before it submits another.")
      .def(py::init<const std::vector<const Handle*>&>(), py::arg("handles"));
  bind_handle(module);
}

}  // namespace ronde::python
