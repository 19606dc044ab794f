#include "bindings/python/torch_memory.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "bindings/python/bind.h"
#include "core/base/dtype.h"

namespace py = pybind11;

namespace ronde::python {
namespace {

// DLPack's C exchange: tensors' memory without their library's headers. Only what is read here.
// Source: dmlc/dlpack, include/dlpack/dlpack.h, version 1.3.
struct DLVersion {
  std::uint32_t major;
  std::uint32_t minor;
};
struct DLTensor {
  void* data;
  std::int32_t device_type;
  std::int32_t device_id;
  std::int32_t ndim;
  std::uint8_t type_code;
  std::uint8_t type_bits;
  std::uint16_t type_lanes;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
struct DLExchange {
  DLVersion version;
  DLExchange* previous;
  void* allocate;
  void* to_managed;
  void* from_managed;
  int (*read)(void* object, DLTensor* out);
  void* current_stream;
};
constexpr std::uint32_t kMajor = 1;
constexpr std::int32_t kHost = 1;

/// DLPack's kind of an element type.
std::uint8_t dl_code(DType dtype) {
  switch (dtype) {
    case DType::kBfloat16:
      return 4;
    case DType::kBool:
      return 6;
    case DType::kFloat8E4m3:
      return 10;
    case DType::kFloat8E5m2:
      return 12;
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
      return 0;
    default:
      return traits_of(dtype).floating ? 2 : 1;
  }
}

/// The element type; nothing if the core has none like it.
std::optional<DType> dtype_of(const DLTensor& tensor) {
  if (tensor.type_lanes != 1) return std::nullopt;
  for (const DTypeTraits& row : kDTypes) {
    if (dl_code(row.value) == tensor.type_code && 8 * row.bytes == tensor.type_bits)
      return row.value;
  }
  return std::nullopt;
}

/// The class's table; null where it has none, as PyTorch before 2.10.
const DLExchange* exchange_of(py::handle type) {
  const py::object capsule = py::getattr(type, "__dlpack_c_exchange_api__", py::none());
  if (!PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) return nullptr;
  const auto* found =
      static_cast<const DLExchange*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  return found->version.major == kMajor ? found : nullptr;
}

/// The arguments of read_torch(). They are never destroyed: at exit there is no interpreter.
struct Told {
  std::vector<std::pair<py::object, const DLExchange*>> types;
  py::object check_unmoved;
  py::object profiler;
  py::object everyone;
  py::object set_id;
};
Told& told() {
  static auto* all = new Told();
  return *all;
}

bool is_contiguous(const DLTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  std::int64_t stride = 1;
  for (std::int32_t d = tensor.ndim - 1; d >= 0; --d) {
    if (tensor.shape[d] == 0) return true;
    if (tensor.shape[d] != 1 && tensor.strides[d] != stride) return false;
    stride *= tensor.shape[d];
  }
  return true;
}

/// The tensor's description; nothing done for what DLPack cannot describe.
bool describe(py::handle tensor, DLTensor& out) {
  for (const auto& [type, exchange] : told().types) {
    if (type.ptr() != reinterpret_cast<PyObject*>(Py_TYPE(tensor.ptr()))) continue;
    if (exchange != nullptr && exchange->read(tensor.ptr(), &out) == 0) return true;
    PyErr_Clear();
    return false;
  }
  return false;
}

void* data_of(const DLTensor& tensor) {
  return tensor.data == nullptr ? nullptr
                                : static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
}

py::object result_of(py::handle object, PyObject* method) {
  PyObject* const result = PyObject_CallMethodNoArgs(object.ptr(), method);
  if (result == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(result);
}

}  // namespace

std::optional<TorchMemory> memory_of(py::handle tensor) {
  static PyObject* const is_negated = PyUnicode_InternFromString("is_neg");
  static PyObject* const storage = PyUnicode_InternFromString("untyped_storage");
  DLTensor read{};
  if (!describe(tensor, read) || read.device_type != kHost || !is_contiguous(read)) return {};
  const std::optional<DType> dtype = dtype_of(read);
  if (!dtype) return {};
  // The memory of a negated view has the other sign; DLPack does not say so.
  if (is_floating(*dtype) && result_of(tensor, is_negated).is(py::bool_(true))) return {};
  void* const data = data_of(read);
  Shape shape(read.shape, read.shape + read.ndim);
  if (data == nullptr && element_count(shape) > 0) return {};
  return TorchMemory{data, {*dtype, std::move(shape)}, result_of(tensor, storage)};
}

std::optional<void*> address_of(py::handle tensor) {
  DLTensor read{};
  if (!describe(tensor, read)) return {};
  return data_of(read);
}

void check_unmoved(py::handle tensor, const void* data) {
  if (const auto now = address_of(tensor); now && *now == data) return;
  told().check_unmoved(tensor, reinterpret_cast<std::uintptr_t>(data));
}

bool profiler_runs() {
  static PyObject* const name = PyUnicode_InternFromString("_is_profiler_enabled");
  PyObject* const found = PyObject_GetAttr(told().profiler.ptr(), name);
  if (found == nullptr) throw py::error_already_set();
  return !py::reinterpret_steal<py::object>(found).is(py::bool_(false));
}

SetId id_of_set(py::handle process_set) {
  if (process_set.is(told().everyone)) return kGlobalSet;
  return told().set_id(process_set).cast<SetId>();
}

void bind_torch_memory(py::module_& module) {
  module.def(
      "read_torch",
      [](const py::list& types, py::object check_unmoved, py::object profiler, py::object everyone,
         py::object set_id) {
        for (const py::handle type : types) {
          told().types.emplace_back(py::reinterpret_borrow<py::object>(type), exchange_of(type));
        }
        told().check_unmoved = std::move(check_unmoved);
        told().profiler = std::move(profiler);
        told().everyone = std::move(everyone);
        told().set_id = std::move(set_id);
      },
      py::arg("types"), py::arg("check_unmoved"), py::arg("profiler"), py::arg("everyone"),
      py::arg("set_id"),
      "From now on tensors of exactly these classes are read without Python. check_unmoved(tensor, "
      "address) raises for one that is not at its address any more. profiler._is_profiler_enabled "
      "is true while torch.profiler runs. `everyone` is the set of all ranks; set_id(set) gives "
      "the "
      "number of any other, or raises.");
  module.def(
      "dlpack_types",
      [] {
        py::list types;
        for (const DTypeTraits& row : kDTypes) {
          types.append(py::make_tuple(dl_code(row.value), 8 * row.bytes));
        }
        return types;
      },
      "DLPack's kind and bits of each element type, in the order of their numbers.");
}

}  // namespace ronde::python
