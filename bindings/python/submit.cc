// Binds submit(), for every collective and element type, and the numbers that it takes.
#include <fmt/format.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "bindings/python/names_in_flight.h"
#include "bindings/python/operation.h"
#include "bindings/runtime/groups/process_sets.h"
#include "bindings/runtime/operations.h"
#include "core/protocol/request.h"

namespace py = pybind11;

namespace ronde::python {
namespace {

/// One tensor's memory, without a copy.
struct View {
  void* data = nullptr;
  TensorMeta meta;
  Device device;
  void* stream = nullptr;  ///< Whose work the tensor is made by; on a device only.
  bool writable = true;
  bool is_complex = false;  ///< `meta` has pairs: its last extent is 2.
};

Shape shape_of(const py::array& array) {
  return Shape(array.shape(), array.shape() + array.ndim());
}

/// Maps NumPy's kind and size; nothing for types that Ronde does not have.
std::optional<DType> dtype_of(const py::dtype& dtype) {
  switch (dtype.kind()) {
    case 'b':
      return DType::kBool;
    case 'u':
      return dtype.itemsize() == 1 ? std::optional(DType::kUint8) : std::nullopt;
    case 'i':
      switch (dtype.itemsize()) {
        case 1:
          return DType::kInt8;
        case 2:
          return DType::kInt16;
        case 4:
          return DType::kInt32;
        default:
          return DType::kInt64;
      }
    case 'f':
      switch (dtype.itemsize()) {
        case 2:
          return DType::kFloat16;
        case 4:
          return DType::kFloat32;
        case 8:
          return DType::kFloat64;
        default:
          return std::nullopt;
      }
    default:
      return std::nullopt;
  }
}

std::string allowed_types() { return "allowed: " + names_in(kDTypes); }

/// Complex numbers travel as pairs of the type of their parts.
bool is_complex(const py::dtype& dtype) {
  return dtype.kind() == 'c' && (dtype.itemsize() == 8 || dtype.itemsize() == 16);
}

/// The dtype and shape of an array's pairs. A single number is a row of its own.
TensorMeta pairs_of(const py::array& array) {
  Shape shape = shape_of(array);
  if (shape.empty()) shape.push_back(1);
  shape.push_back(2);
  return {array.dtype().itemsize() == 8 ? DType::kFloat32 : DType::kFloat64, std::move(shape)};
}

/// Errors: kInvalidArgument where the core cannot use the array's memory as it is.
Result<View> view_of_array(const py::array& array) {
  const bool has_pairs = is_complex(array.dtype());
  const auto dtype = has_pairs ? pairs_of(array).dtype : dtype_of(array.dtype());
  if (!dtype || array.dtype().byteorder() == '>') {
    return Status(Code::kInvalidArgument,
                  fmt::format("is of type {}, which is not supported; {}, complex64, complex128, "
                              "in this machine's order of bytes",
                              py::str(array.dtype()).cast<std::string>(), allowed_types()));
  }
  if ((array.flags() & py::array::c_style) == 0) {
    return Status(Code::kInvalidArgument, "is not C-contiguous");
  }
  return View{const_cast<void*>(array.data()),
              has_pairs ? pairs_of(array) : TensorMeta{*dtype, shape_of(array)},
              {},
              nullptr,
              array.writeable(),
              has_pairs};
}

/// Shape of a tuple of whole numbers; many small tensors spend most of their time here.
Shape extents_of(py::handle object) {
  if (!PyTuple_Check(object.ptr())) return object.cast<Shape>();
  Shape shape;
  shape.reserve(static_cast<std::size_t>(PyTuple_GET_SIZE(object.ptr())));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object.ptr()); ++i) {
    const long long extent = PyLong_AsLongLong(PyTuple_GET_ITEM(object.ptr(), i));
    if (extent == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
    shape.push_back(extent);
  }
  return shape;
}

/// A NumPy array, or (address, shape, element type code) as ronde.torch describes its tensors; on a
/// CUDA device the ordinal and the current stream follow.
Result<View> view_of(py::handle object) {
  if (!PyTuple_CheckExact(object.ptr()) && py::isinstance<py::array>(object)) {
    return view_of_array(py::reinterpret_borrow<py::array>(object));
  }
  const auto tuple = py::reinterpret_borrow<py::tuple>(object);
  const auto address = tuple[0].cast<std::uintptr_t>();
  const auto code = tuple[2].cast<int>();
  if (code < 0 || code >= kDTypeCount)
    return Status(Code::kInvalidArgument, "has an unknown dtype; " + allowed_types());
  View view{reinterpret_cast<void*>(address),
            {static_cast<DType>(code), extents_of(tuple[1])},
            {},
            nullptr};
  if (tuple.size() == 5) {
    view.device = {DeviceKind::kCuda, tuple[3].cast<int>()};
    view.stream = reinterpret_cast<void*>(tuple[4].cast<std::uintptr_t>());
  }
  return view;
}

/// Notes where one more tensor of a submission is; the first decides.
void place(Submission& submission, const View& view, bool first) {
  Device& device = submission.request.device;
  if (first) {
    device = view.device;
    submission.stream = view.stream;
  } else if (device != view.device) {
    device.kind = kSeveralDevices;
  }
}

std::string described(const View& view) {
  const auto& [dtype, shape] = view.meta;
  if (!view.is_complex) {
    return fmt::format("shape {}, dtype {}", to_string(shape), to_string(dtype));
  }
  return fmt::format("shape {}, dtype complex{}", to_string(Shape(shape.begin(), shape.end() - 1)),
                     16 * size_of(dtype));
}

/// An input or output of a call, as errors name it: "out", "out[2]" of several.
class Argument {
 public:
  Argument(const Request& request, std::string_view side, std::size_t index, std::size_t count)
      : request_(request), side_(side), index_(index), count_(count) {}

  [[nodiscard]] std::string name() const {
    return count_ == 1 ? std::string(side_) : fmt::format("{}[{}]", side_, index_);
  }
  [[noreturn]] void refuse(std::string_view problem) const {
    raise({Code::kInvalidArgument, fmt::format("{}: {} {}", described(request_), name(), problem)});
  }
  /// Its memory; nothing for None. Raises where it cannot be used.
  [[nodiscard]] View view(py::handle object) const {
    if (object.is_none()) return {};
    Result<View> found = view_of(object);
    if (!found.ok()) refuse(found.status().message());
    if (found->data == nullptr && element_count(found->meta.shape) > 0) {
      refuse(fmt::format("has {}, but a null address: its memory was freed", described(*found)));
    }
    if (found->is_complex) check_op();
    return std::move(found).value();
  }
  /// Raises unless this output can get the result of `in`, an input of the same call. Sizes that
  /// only the agreement tells are the caller's. `ranks`: of the set, for scatter.
  void check(const View& in, const View& out, std::size_t ranks) const;

 private:
  /// Raises unless this output is one of the parts that the input has for `ranks` ranks.
  void check_part(const View& in, const View& out, std::size_t ranks) const;
  void check_op() const;

  const Request& request_;
  std::string_view side_;
  std::size_t index_;
  std::size_t count_;
};

/// Raises for operations that complex numbers do not have.
void Argument::check_op() const {
  if (!traits_of(request_.kind).reduces) return;
  if (request_.op == ReduceOp::kSum || request_.op == ReduceOp::kAverage) return;
  refuse(fmt::format("has complex numbers, on which op {} is not defined; allowed: sum, average",
                     to_string(request_.op)));
}

void Argument::check(const View& in, const View& out, std::size_t ranks) const {
  const CollectiveTraits& traits = traits_of(request_.kind);
  if (traits.shape == ShapeOf::kOutput) return check_part(in, out, ranks);
  const bool same_kind = in.is_complex == out.is_complex && in.meta.dtype == out.meta.dtype;
  if (same_kind && (!traits.element_wise() || in.meta.shape == out.meta.shape)) return;
  refuse(fmt::format("has {}, but the input has {}; give an array of the same shape and dtype",
                     described(out), described(in)));
}

void Argument::check_part(const View& in, const View& out, std::size_t ranks) const {
  const bool same_kind = in.is_complex == out.is_complex;
  const auto part = static_cast<std::size_t>(element_count(out.meta.shape));
  const auto whole = static_cast<std::size_t>(element_count(in.meta.shape));
  if (same_kind && in.meta.dtype == out.meta.dtype && whole == ranks * part) return;
  refuse(
      fmt::format("has {}, but the root's input has {}; it must have the same dtype, and one "
                  "part of out's shape for each of {} ranks",
                  described(out), described(in), ranks));
}

/// Arguments of submit(), besides the tensors.
struct Options {
  std::string name;
  int op;
  int root;
  double prescale;
  double postscale;
  std::vector<std::int64_t> splits;
  std::int32_t priority;
  std::string site;
  std::string compression;
  std::string program;
  std::optional<double> weight;
};

/// The value of an enumeration. Errors: InvalidArgumentError where there is no such value.
template <typename Enum>
Enum checked(int number, int count, const char* what) {
  if (number < 0 || number >= count) {
    raise({Code::kInvalidArgument, std::string(what) + "=" + std::to_string(number) +
                                       "; allowed: 0 to " + std::to_string(count - 1)});
  }
  return static_cast<Enum>(number);
}

/// The number of ranks of a set; 1 where there is none, which the submission says.
std::size_t size_of_set(Runtime& runtime, SetId set) {
  const auto ranks = runtime.process_sets().ranks(set);
  return ranks.ok() ? ranks->size() : 1;
}

Submission make_submission(Runtime& runtime, SetId set, int kind, const py::list& inputs,
                           const py::list& outputs, Options options) {
  Submission submission;
  Request& request = submission.request;
  request.kind = checked<Collective>(kind, kCollectiveCount, "kind");
  request.name = std::move(options.name);
  request.op = checked<ReduceOp>(options.op, kReduceOpCount, "op");
  request.root = options.root;
  request.prescale = options.prescale;
  request.postscale = options.postscale;
  request.priority = options.priority;
  request.compression = std::move(options.compression);
  request.program = std::move(options.program);
  request.weight = options.weight;
  request.call_site = options.site.empty() ? call_site() : std::move(options.site);
  submission.splits = std::move(options.splits);
  const bool in_place = outputs.is(inputs);
  submission.inputs.reserve(inputs.size());
  submission.outputs.reserve(inputs.size());
  request.tensors.reserve(inputs.size());
  const bool is_shared = traits_of(request.kind).shape == ShapeOf::kOutput;
  const std::size_t ranks = is_shared ? size_of_set(runtime, set) : 1;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const py::handle in = inputs[i];
    const py::handle out = i < outputs.size() ? py::handle(outputs[i]) : py::none();
    const Argument output(request, "out", i, inputs.size());
    View given = Argument(request, "input", i, inputs.size()).view(in);
    View taken = in_place ? given : output.view(out);
    if (!taken.writable) output.refuse("is read-only; give an array that can be written");
    if (!in.is_none() && !out.is_none()) output.check(given, taken, ranks);
    if (!in.is_none()) place(submission, given, i == 0);
    if (!out.is_none()) place(submission, taken, i == 0 && in.is_none());
    submission.inputs.push_back(given.data);
    submission.outputs.push_back(taken.data);
    // scatter describes each rank's part; so does a rank that gives no input.
    const bool by_output = in.is_none() || traits_of(request.kind).shape == ShapeOf::kOutput;
    request.tensors.push_back(std::move(by_output ? taken.meta : given.meta));
  }
  return submission;
}

Pins pins_of(const py::list& inputs, const py::list& outputs) {
  Pins pins;
  for (const py::handle input : inputs) pins.add(input);
  if (outputs.is(inputs)) return pins;
  for (const py::handle output : outputs) pins.add(output);
  return pins;
}

/// Submits, and waits too where `wait` is set: then without a hop to another thread.
std::unique_ptr<Handle> submit(const RuntimePtr& runtime, int kind, SetId set,
                               const py::list& inputs, const py::list& outputs, py::object keep,
                               bool wait, std::string name, int op, int root, double prescale,
                               double postscale, std::vector<std::int64_t> splits,
                               std::int32_t priority, std::string site, std::string compression,
                               double timeout_s, std::string program,
                               std::optional<double> weight) {
  sweep_dropped();
  Submission submission =
      make_submission(*runtime, set, kind, inputs, outputs,
                      {std::move(name), op, root, prescale, postscale, std::move(splits), priority,
                       std::move(site), std::move(compression), std::move(program), weight});
  submission.caller_waits = wait;
  NamesInFlight& names = NamesInFlight::of_process();
  check(names.check(set, submission.request));
  OperationPtr operation = unwrap(runtime->operations().submit(set, std::move(submission)));
  auto handle = std::make_unique<Handle>(runtime, std::move(operation), std::move(keep),
                                         wait ? Pins() : pins_of(inputs, outputs));
  names.enter(set, handle->operation(), handle->seen());
  if (wait) handle->wait(timeout_s);
  return handle;
}

/// The names and numbers of one of the core's tables, in its order.
template <typename Table>
py::dict numbers_of(const Table& table) {
  py::dict numbers;
  for (const auto& row : table) numbers[py::str(row.name)] = static_cast<int>(row.value);
  return numbers;
}

}  // namespace

void bind_submit(py::module_& module) {
  module.def(
      "submit", &submit, py::arg("runtime"), py::arg("kind"), py::arg("set"), py::arg("inputs"),
      py::arg("outputs"), py::arg("keep"), py::arg("wait") = false, py::arg("name") = "",
      py::arg("op") = 0, py::arg("root") = -1, py::arg("prescale") = 1.0,
      py::arg("postscale") = 1.0, py::arg("splits") = std::vector<std::int64_t>(),
      py::arg("priority") = 0, py::arg("site") = "", py::arg("compression") = "",
      py::arg("timeout") = -1.0, py::arg("program") = "", py::arg("weight") = py::none(),
      "Submits one collective. Tensors are C-contiguous NumPy arrays or (address, shape, "
      "dtype code), with (..., device, stream) in CUDA memory; an output of None is allocated by "
      "the operation. `timeout`: seconds to wait. `weight`: of this rank in a mean.");
  module.def(
      "collectives", [] { return numbers_of(kCollectives); }, "Collectives: name and number.");
  module.def(
      "reduce_ops", [] { return numbers_of(kReduceOps); }, "Reduce operations: name and number.");
  module.def(
      "dtypes", [] { return numbers_of(kDTypes); }, "Element types: name and number.");
  module.def(
      "join",
      [](const RuntimePtr& runtime, SetId set) {
        return std::make_unique<Handle>(runtime, unwrap(runtime->operations().join(set)),
                                        py::none());
      },
      py::arg("runtime"), py::arg("set"), "Says that this rank has no more data in this set.");
}

}  // namespace ronde::python
