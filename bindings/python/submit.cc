// Binds submit(), for every collective and element type, and the numbers that it takes.
#include <fmt/format.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/c/current.h"
#include "bindings/python/names_in_flight.h"
#include "bindings/python/operation.h"
#include "bindings/python/sent_gradients.h"
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
  void* stream = nullptr;  ///< Its work makes the tensor; on a device only.
  bool writable = true;
  bool is_complex = false;  ///< `meta` has pairs: its last extent is 2.
};

Shape shape_of(const py::array& array) {
  return Shape(array.shape(), array.shape() + array.ndim());
}

/// The element type of NumPy's kind and size; nothing for types that Ronde does not have.
std::optional<DType> dtype_of(const py::dtype& dtype) {
  constexpr std::pair<char, DType> kKinds[] = {
      {'b', DType::kBool},    {'u', DType::kUint8},   {'u', DType::kUint16},
      {'u', DType::kUint32},  {'u', DType::kUint64},  {'i', DType::kInt8},
      {'i', DType::kInt16},   {'i', DType::kInt32},   {'i', DType::kInt64},
      {'f', DType::kFloat16}, {'f', DType::kFloat32}, {'f', DType::kFloat64}};
  const auto size = static_cast<std::size_t>(dtype.itemsize());
  for (const auto& [kind, type] : kKinds) {
    if (kind == dtype.kind() && size_of(type) == size) return type;
  }
  return std::nullopt;
}

std::string allowed_types() { return "allowed: " + names_in(kDTypes); }

/// Complex numbers travel as pairs of the type of their parts.
bool is_complex(const py::dtype& dtype) {
  return dtype.kind() == 'c' && (dtype.itemsize() == 8 || dtype.itemsize() == 16);
}

/// Tuples name complex types by these numbers; see complex_types().
constexpr int kComplex64 = kDTypeCount;
constexpr int kComplex128 = kDTypeCount + 1;

/// The dtype and shape of the pairs of complex numbers. A single number is a row of its own.
TensorMeta pairs_of(Shape shape, bool is_double) {
  if (shape.empty()) shape.push_back(1);
  shape.push_back(2);
  return {is_double ? DType::kFloat64 : DType::kFloat32, std::move(shape)};
}

TensorMeta pairs_of(const py::array& array) {
  return pairs_of(shape_of(array), array.dtype().itemsize() == 16);
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
  if (code < 0 || code > kComplex128)
    return Status(Code::kInvalidArgument, "has an unknown dtype; " + allowed_types());
  View view{reinterpret_cast<void*>(address), {}, {}, nullptr};
  view.is_complex = code >= kComplex64;
  view.meta = view.is_complex ? pairs_of(extents_of(tuple[1]), code == kComplex128)
                              : TensorMeta{static_cast<DType>(code), extents_of(tuple[1])};
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

/// Complex numbers are pairs for the core, so ranks agree on the text of the program: which tensors
/// are complex, and that pairs of real numbers are not.
void note_numbers(Request& request, const View& view, std::size_t index) {
  const Shape& shape = view.meta.shape;
  std::string& program = request.program;
  if (view.is_complex) {
    program += fmt::format("{}a call with complex numbers in tensor {}",
                           program.empty() ? "" : "; ", index);
  } else if (program.empty() && !shape.empty() && shape.back() == 2) {
    program = "a call with real numbers";
  }
}

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

/// Field `i` of a call. Raises TypeError for a value of another type.
template <typename Value>
Value field(const py::tuple& call, std::size_t i, const char* what) {
  try {
    return call[i].cast<Value>();
  } catch (const py::cast_error&) {
    throw py::type_error(std::string(what) + " is of a wrong type");
  }
}

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

/// The request of a call, without its tensors. `call`: the other arguments, with the fields of
/// ronde._collectives.calls.Call in their order. Field 1, the process set, is read elsewhere.
Request request_of(int kind, const py::tuple& call) {
  Request request;
  request.kind = checked<Collective>(kind, kCollectiveCount, "kind");
  if (!call[0].is_none()) request.name = field<std::string>(call, 0, "name");
  request.op = checked<ReduceOp>(field<int>(call, 2, "op"), kReduceOpCount, "op");
  std::tie(request.prescale, request.postscale) =
      field<std::pair<double, double>>(call, 3, "scale");
  request.root = field<int>(call, 4, "root");
  request.priority = field<std::int32_t>(call, 5, "priority");
  request.call_site = field<std::string>(call, 6, "site");
  request.compression = field<std::string>(call, 7, "compression");
  request.weight = field<std::optional<double>>(call, 8, "weight");
  request.program = field<std::string>(call, 9, "program");
  if (request.call_site.empty()) request.call_site = call_site();
  return request;
}

/// The submission of a call, without its tensors.
Submission submission_of(int kind, const py::tuple& call) {
  Submission submission;
  submission.request = request_of(kind, call);
  submission.holds_finding = field<bool>(call, 10, "holds_finding");
  return submission;
}

Submission make_submission(Runtime& runtime, SetId set, int kind, const py::list& inputs,
                           const py::list& outputs, const py::tuple& call) {
  Submission submission = submission_of(kind, call);
  Request& request = submission.request;
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
    View other;
    if (!in_place) other = output.view(out);
    View& taken = in_place ? given : other;
    if (!taken.writable) output.refuse("is read-only; give an array that can be written");
    if (!in_place && !in.is_none() && !out.is_none()) output.check(given, taken, ranks);
    note_numbers(request, in.is_none() ? taken : given, i);
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

/// Gradients that are replaced by their results. They are checked already.
Submission make_submission(int kind, const SentGradients& gradients, const py::tuple& call) {
  Submission submission = submission_of(kind, call);
  for (const SentGradients::One& one : gradients.all()) {
    submission.inputs.push_back(one.memory.data);
    submission.outputs.push_back(one.memory.data);
    submission.request.tensors.push_back(one.memory.meta);
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

/// Submits one, whose handle keeps `keep` and `pins`.
Result<std::unique_ptr<Handle>> start(const RuntimePtr& runtime, SetId set, Submission submission,
                                      py::object keep, Pins pins) {
  NamesInFlight& names = NamesInFlight::of_process();
  RONDE_RETURN_IF_ERROR(names.check(set, submission.request));
  RONDE_ASSIGN_OR_RETURN(OperationPtr operation,
                         runtime->operations().submit(set, std::move(submission)));
  auto handle = std::make_unique<Handle>(
      InUse{runtime, std::move(operation), std::move(keep), std::move(pins), nullptr});
  names.enter(set, handle->operation(), handle->seen());
  return handle;
}

/// The splits, or the indices, of a call: an array of int64, or any sequence of whole numbers.
std::vector<std::int64_t> numbers_of_call(const py::object& given) {
  if (!py::isinstance<py::array_t<std::int64_t>>(given)) {
    return given.cast<std::vector<std::int64_t>>();
  }
  const py::array_t<std::int64_t, py::array::c_style> numbers(given);
  return {numbers.data(), numbers.data() + numbers.size()};
}

/// Submits, and waits too where `wait` is set: then without a hop to another thread.
std::unique_ptr<Handle> submit(const RuntimePtr& runtime, int kind, SetId set,
                               const py::list& inputs, const py::list& outputs, py::object keep,
                               bool wait, const py::tuple& call, const py::object& splits,
                               double timeout_s) {
  sweep_dropped();
  Submission submission = make_submission(*runtime, set, kind, inputs, outputs, call);
  if (!splits.is_none()) submission.splits = numbers_of_call(splits);
  submission.caller_waits = wait;
  auto handle = unwrap(start(runtime, set, std::move(submission), std::move(keep),
                             wait ? Pins() : pins_of(inputs, outputs)));
  if (wait) handle->await(timeout_s);
  return handle;
}

/// Submits an allreduce of gradients in place.
std::unique_ptr<Handle> submit_gradients(const RuntimePtr& runtime, SetId set,
                                         const SentGradients& gradients, py::object keep,
                                         const py::tuple& call) {
  sweep_dropped();
  Pins pins;
  for (const SentGradients::One& one : gradients.all()) pins.add_owner(one.memory.storage);
  return unwrap(start(runtime, set,
                      make_submission(static_cast<int>(Collective::kAllreduce), gradients, call),
                      std::move(keep), std::move(pins)));
}

/// The arguments of reduce_tensor(), in their order; the last seven come in one tuple.
struct TensorCall {
  py::handle wait, tensor, make_output, average, name, op, prescale, postscale, process_set, weight;
};

/// Reads what users usually give: a text or None, a float, an operation's number or neither. False
/// for anything else, whose errors Python knows.
bool read_name(py::handle given, std::string& name) {
  if (given.is_none()) return true;
  Py_ssize_t size = 0;
  const char* text =
      PyUnicode_Check(given.ptr()) ? PyUnicode_AsUTF8AndSize(given.ptr(), &size) : nullptr;
  if (text == nullptr) {
    PyErr_Clear();
    return false;
  }
  name.assign(text, static_cast<std::size_t>(size));
  return true;
}
bool read_factor(py::handle given, double& factor) {
  if (!PyFloat_CheckExact(given.ptr())) return false;
  factor = PyFloat_AS_DOUBLE(given.ptr());
  return true;
}
bool read_op(const TensorCall& call, ReduceOp& op) {
  op = ReduceOp::kAverage;
  if (!call.average.is_none()) return false;
  if (call.op.is_none()) return true;
  const long number = PyLong_Check(call.op.ptr()) ? PyLong_AsLong(call.op.ptr()) : -1;
  if (number < 0 || number >= kReduceOpCount) {
    PyErr_Clear();
    return false;
  }
  op = static_cast<ReduceOp>(number);
  return true;
}

/// True if autograd need not know of the call.
bool is_plain(py::handle tensor) {
  static PyObject* const name = PyUnicode_InternFromString("requires_grad");
  PyObject* const found = PyObject_GetAttr(tensor.ptr(), name);
  if (found == nullptr) PyErr_Clear();
  return py::reinterpret_steal<py::object>(found).is(py::bool_(false));
}

/// The submission of a usual call; nothing for any other. `output`: what gets the result.
std::optional<Submission> usual_submission(const TensorCall& call, Pins& pins, py::object& output) {
  Submission submission;
  Request& request = submission.request;
  if (!call.weight.is_none() || !read_name(call.name, request.name) ||
      !read_factor(call.prescale, request.prescale) ||
      !read_factor(call.postscale, request.postscale) || !read_op(call, request.op)) {
    return {};
  }
  std::optional<TorchMemory> given = memory_of(call.tensor);
  const bool in_place = call.make_output.is_none();
  submission.caller_waits = call.wait.is(py::bool_(true));
  if (!given || ((in_place || submission.caller_waits) && !is_plain(call.tensor))) return {};
  note_numbers(request, {given->data, given->meta, {}}, 0);
  submission.inputs = {given->data};
  request.tensors = {std::move(given->meta)};
  if (submission.caller_waits) {
    pins.add_owner(std::move(given->storage));
  } else {
    pins.add_storage(std::move(given->storage));
  }
  output = py::reinterpret_borrow<py::object>(in_place ? call.tensor : call.make_output);
  if (!in_place) output = output(call.tensor);
  const std::optional<void*> made = in_place ? given->data : address_of(output);
  if (!made || (*made == nullptr) != (given->data == nullptr)) return {};
  submission.outputs = {*made};
  request.call_site = call_site();
  return submission;
}

/// Submits an allreduce of one tensor of PyTorch, in place unless `make_output` makes another from
/// it. None, with nothing done, where a closer look is needed.
py::object reduce_tensor(const TensorCall& call) {
  const RuntimePtr runtime = current_runtime();
  if (runtime == nullptr || profiler_runs()) return py::none();
  const SetId set = id_of_set(call.process_set);
  sweep_dropped();
  Pins pins;
  py::object output;
  std::optional<Submission> submission = usual_submission(call, pins, output);
  if (!submission) return py::none();
  const bool waits = submission->caller_waits;
  auto started = start(runtime, set, std::move(*submission), std::move(output), std::move(pins));
  if (!started.ok() && started.status().code() == Code::kInvalidArgument) return py::none();
  std::unique_ptr<Handle> handle = unwrap(std::move(started));
  if (call.make_output.is_none()) handle->check_place();
  if (waits) handle->await(-1.0);
  return py::cast(std::move(handle));
}

/// reduce_tensor() as Python calls it: pybind11 takes longer to find a function than to run it.
PyObject* call_reduce_tensor(PyObject* /*module*/, PyObject* const* given, Py_ssize_t count) {
  if (count != 4 || !PyTuple_Check(given[3]) || PyTuple_GET_SIZE(given[3]) != 7) {
    PyErr_SetString(PyExc_TypeError, "reduce_tensor() takes 3 arguments and a tuple of 7");
    return nullptr;
  }
  const auto option = [given](Py_ssize_t i) { return PyTuple_GET_ITEM(given[3], i); };
  try {
    return reduce_tensor({given[0], given[1], given[2], option(0), option(1), option(2), option(3),
                          option(4), option(5), option(6)})
        .release()
        .ptr();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

PyMethodDef reduce_tensor_method = {
    "reduce_tensor",
    reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_reduce_tensor)), METH_FASTCALL,
    "Submits an allreduce of one tensor of PyTorch, in place where `make_output` is None. None, "
    "with nothing done, unless all arguments are of the usual types, the tensor is dense, "
    "contiguous and in host memory, and no profiler runs."};

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
      py::arg("outputs"), py::arg("keep"), py::arg("wait"), py::arg("call"),
      py::arg("splits") = py::none(), py::arg("timeout") = -1.0,
      "Submits one collective. Tensors are C-contiguous NumPy arrays or (address, shape, "
      "dtype code), with (..., owner) if something must keep the memory and (..., device, stream) "
      "in CUDA memory; an output of None is allocated by the operation. `call`: "
      "ronde._collectives.calls.Call. `timeout`: seconds to wait.");
  module.def("submit_gradients", &submit_gradients, py::arg("runtime"), py::arg("set"),
             py::arg("gradients"), py::arg("keep"), py::arg("call"),
             "Submits an allreduce in place of gradients that were taken.");
  module.add_object("reduce_tensor", PyCFunction_NewEx(&reduce_tensor_method, nullptr, nullptr));
  module.def(
      "collectives", [] { return numbers_of(kCollectives); }, "Collectives: name and number.");
  module.def(
      "reductions",
      [] {
        py::list names;
        for (const CollectiveTraits& row : kCollectives) {
          if (row.reduces) names.append(py::str(row.name));
        }
        return names;
      },
      "Names of the collectives that combine elements.");
  module.def(
      "reduce_ops", [] { return numbers_of(kReduceOps); }, "Reduce operations: name and number.");
  module.def(
      "dtypes", [] { return numbers_of(kDTypes); }, "Element types: name and number.");
  module.def(
      "complex_types",
      [] {
        py::dict numbers;
        numbers["complex64"] = kComplex64;
        numbers["complex128"] = kComplex128;
        return numbers;
      },
      "Complex types, which only submit() knows: name and number.");
  module.def(
      "join",
      [](const RuntimePtr& runtime, SetId set) {
        return std::make_unique<Handle>(
            InUse{runtime, unwrap(runtime->operations().join(set)), py::none(), {}, nullptr});
      },
      py::arg("runtime"), py::arg("set"), "Says that this rank has no more data in this set.");
}

}  // namespace ronde::python
