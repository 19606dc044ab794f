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
#include "bindings/runtime/groups/group_factory.h"
#include "bindings/runtime/operations.h"

namespace py = pybind11;

namespace ronde::python {
namespace {

/// References of a dropped handle whose operation still uses the memory.
struct Dropped {
  RuntimePtr runtime;
  OperationPtr operation;
  py::object keep;
  Pins pins;
};

/// The module's list of them, guarded by the GIL. Never destroyed: at exit there is no interpreter
/// left to drop references in.
std::list<Dropped>& dropped() {
  static auto* list = new std::list<Dropped>();
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

Handle::Handle(RuntimePtr runtime, OperationPtr operation, py::object keep, Pins pins)
    : runtime_(std::move(runtime)),
      operation_(std::move(operation)),
      keep_(std::move(keep)),
      pins_(std::move(pins)) {}

Handle::~Handle() {
  if (operation_->done()) *seen_ = *seen_ || !operation_->status().ok();
  if (!is_over(*operation_)) {
    dropped().push_back(
        {std::move(runtime_), std::move(operation_), std::move(keep_), std::move(pins_)});
  }
}

bool Handle::done() {
  const bool ended = operation_->done();
  *seen_ = *seen_ || ended;
  if (ended) let_go();
  return ended;
}

void Handle::let_go() {
  freed_ = freed_ || pins_.are_freed();
  pins_.clear();
}

void Handle::wait(double timeout_s, const Together* together) {
  Status status;
  if (operation_->done()) {
    status = operation_->status();
  } else {
    py::gil_scoped_release unlocked;
    if (timeout_s < 0) {
      const std::span<const OperationPtr> alone(&operation_, 1);
      status = BlockedWait(*runtime_, together == nullptr ? alone : together->operations)
                   .wait(operation_);
    } else {
      status = runtime_->operations().wait(operation_, interruptible(timeout_s));
    }
  }
  *seen_ = operation_->done();
  if (*seen_) let_go();
  check_wait(status);
  if (!freed_) return;
  raise({Code::kInvalidArgument,
         "a tensor was given other memory (resize_()) while an operation was using it, so that the "
         "result is wrong; wait for the operation first"});
}

void Handle::order_after(std::uintptr_t stream) {
  check(runtime_->operations().order_after(operation_, reinterpret_cast<void*>(stream)));
}

void sweep_dropped() {
  if (dropped().empty()) return;
  std::list<Dropped> finished;
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
  py::class_<Handle>(module, "Handle", "An operation in flight.")
      .def("done", &Handle::done, "Whether it has ended, well or not.")
      .def("wait", &Handle::wait, py::arg("timeout") = -1.0, py::arg("together") = nullptr,
           "Blocks until done (at most `timeout` seconds unless negative) and raises its error. "
           "`together`: what is waited for beside it.")
      .def("order_after", &Handle::order_after, py::arg("stream"),
           "Makes later work of a CUDA stream come after the results. Nothing for host memory.")
      .def("output", &output, py::arg("index") = 0,
           "(buffer or None, shape) of an output that the caller gave no memory for.")
      .def_property_readonly(
          "address",
          [](const Handle& handle) {
            return reinterpret_cast<std::uintptr_t>(
                handle.operation()->submission().outputs.front());
          },
          "Where the first output was when it was submitted.")
      .def_property_readonly("kept", &Handle::kept, "What `keep` was.")
      .def_property_readonly(
          "recv_splits", [](const Handle& handle) { return handle.operation()->recv_splits(); },
          "alltoall: rows received from each member.")
      .def_property_readonly(
          "last_joined", [](const Handle& handle) { return handle.operation()->last_joined(); },
          "join: the rank that joined last.");
}

}  // namespace ronde::python
