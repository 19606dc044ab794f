// Binds Runtime: joining and leaving the job, who is who, process sets, the timeline.
#include <poll.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <chrono>
#include <map>
#include <utility>

#include "bindings/elastic/member.h"
#include "bindings/python/names_in_flight.h"
#include "bindings/python/operation.h"
#include "bindings/runtime/groups/group_factory.h"
#include "bindings/runtime/groups/process_sets.h"
#include "bindings/runtime/injection.h"
#include "bindings/runtime/timeline.h"
#include "ops/compression/residuals.h"

namespace py = pybind11;

namespace ronde::python {
namespace {

/// Settings by variable name, over those of the environment.
using Settings = std::map<std::string, std::string>;

Config config_with(const Settings& settings) {
  Config config = unwrap(config_from(process_environment()));
  for (const auto& [name, value] : settings) check(set_setting(config, name, value));
  return config;
}

/// Ends the start of an elastic job's epoch that cannot begin any more.
CancelSource cancel_source(const Config& config) {
  elastic::Member* const member = unwrap(elastic::Member::of_process());
  return member == nullptr ? CancelSource() : member->cancel_source(config.job_id);
}

/// Ends the start once `fd` is readable.
CancelSource cancelled_by(int fd) {
  return {fd, [fd] {
            pollfd watched{fd, POLLIN, 0};
            if (::poll(&watched, 1, 0) == 0) return Status();
            return Status(Code::kAborted, "a process that was to join the job has ended");
          }};
}

/// Without the GIL: a dump may wait for it.
void destroy(Runtime* runtime) {
  if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
    const py::gil_scoped_release unlocked;
    runtime->shutdown();
  }
  delete runtime;
}

/// `until`: the start ends once this descriptor is readable; -1: none.
RuntimePtr create(const Settings& settings, const RuntimePtr& carry, bool has_copies, int until) {
  const Config config = config_with(settings);
  CancelSource cancel = until < 0 ? cancel_source(config) : cancelled_by(until);
  JoinOptions options{std::move(cancel), carry.get(), has_copies, script_source()};
  Result<std::unique_ptr<Runtime>> result = [&] {
    py::gil_scoped_release unlocked;
    return Runtime::create(config, std::move(options));
  }();
  return {unwrap(std::move(result)).release(), &destroy};
}

void shut_down(Runtime& runtime, const std::string& why) {
  {
    py::gil_scoped_release unlocked;
    runtime.shutdown(why);
  }
  sweep_dropped();
  NamesInFlight::of_process().clear();
}

SetId add_process_set(Runtime& runtime, std::vector<int> ranks) {
  const WaitOptions options = interruptible(-1.0);
  Result<SetId> set = [&] {
    py::gil_scoped_release unlocked;
    return runtime.process_sets().add(std::move(ranks), options);
  }();
  check_wait(set.status());
  return *set;
}

void remove_process_set(Runtime& runtime, SetId set) {
  const WaitOptions options = interruptible(-1.0);
  Status status;
  {
    py::gil_scoped_release unlocked;
    status = runtime.process_sets().remove(set, options);
  }
  check_wait(status);
}

/// `stall_error_s`: see SetOptions; 0 means never.
SetId open_set(Runtime& runtime, std::vector<int> ranks, std::string name, double stall_error_s,
               double timeout_s) {
  const WaitOptions options = interruptible(timeout_s);
  const SetOptions set{std::move(name), std::chrono::duration_cast<Duration>(
                                            std::chrono::duration<double>(stall_error_s))};
  Result<SetId> id = [&] {
    py::gil_scoped_release unlocked;
    return runtime.process_sets().open(std::move(ranks), set, options);
  }();
  check_wait(id.status());
  return *id;
}

void close_set(Runtime& runtime, SetId set, double timeout_s) {
  const WaitOptions options = interruptible(timeout_s);
  Status status;
  {
    py::gil_scoped_release unlocked;
    status = runtime.process_sets().close(set, options);
  }
  check_wait(status);
}

/// Keeps the runtime for ever: after fork() its threads do not exist in the child, so that ending
/// it there would hang.
void abandon(const RuntimePtr& runtime) { static_cast<void>(new RuntimePtr(runtime)); }

/// Ranks on each host, by host.
std::vector<int> ranks_by_host(const Runtime& runtime) {
  const Topology& topology = runtime.topology();
  std::vector<int> counts(static_cast<std::size_t>(topology.host_count()), 0);
  for (const PeerInfo& peer : topology.peers) ++counts[static_cast<std::size_t>(peer.host_index)];
  return counts;
}

/// (process set, tensor, steps, values) of each residual.
py::list save_residuals(Runtime& runtime) {
  py::list saved;
  for (const SavedResidual& one : unwrap(runtime.residuals().save())) {
    const py::array_t<float> values(static_cast<py::ssize_t>(one.values.size()), one.values.data());
    saved.append(py::make_tuple(one.set, one.name, one.steps, values));
  }
  return saved;
}

/// {(process set, tensor): (norm of what waits, norm of the result)}.
py::dict compression_losses(Runtime& runtime) {
  py::dict losses;
  for (const auto& [key, loss] : runtime.residuals().losses()) {
    losses[py::make_tuple(key.first, key.second)] = py::make_tuple(loss.lost, loss.result);
  }
  return losses;
}

void load_residuals(Runtime& runtime, const py::list& saved) {
  using Values = py::array_t<float, py::array::c_style | py::array::forcecast>;
  std::vector<SavedResidual> given;
  for (const py::handle entry : saved) {
    const auto one = py::reinterpret_borrow<py::tuple>(entry);
    const auto values = one[3].cast<Values>();
    given.push_back({one[0].cast<int>(),
                     one[1].cast<std::string>(),
                     one[2].cast<std::uint64_t>(),
                     {values.data(), values.data() + values.size()}});
  }
  check(runtime.residuals().load(std::move(given)));
}

std::vector<std::string> replica_tensors(Runtime& runtime, std::uint64_t step) {
  const Injector* const injector = runtime.injector();
  return injector == nullptr ? std::vector<std::string>() : injector->replica_tensors(step);
}

bool plant_in(Runtime& runtime, std::string_view name, std::string_view dtype,
              py::array_t<std::uint8_t, py::array::c_style>& data, std::size_t element_bytes,
              std::uint64_t step) {
  Injector* const injector = runtime.injector();
  const std::span bytes(data.mutable_data(), static_cast<std::size_t>(data.size()));
  return injector != nullptr &&
         injector->plant_in({name, dtype, element_bytes, std::as_writable_bytes(bytes)}, step);
}

void bind_timeline(py::class_<Runtime, RuntimePtr>& binding) {
  binding
      .def("start_timeline",
           [](Runtime& runtime, const std::string& path, bool mark_cycles) {
             check(runtime.timeline().start(path, mark_cycles));
           })
      .def("stop_timeline", [](Runtime& runtime) { check(runtime.timeline().stop()); })
      .def(
          "mark", [](Runtime& runtime, std::string_view name) { runtime.timeline().mark(name); },
          py::arg("name"))
      .def(
          "begin_mark",
          [](Runtime& runtime, std::string_view name) { runtime.timeline().begin_mark(name); },
          py::arg("name"))
      .def("end_mark", [](Runtime& runtime) { runtime.timeline().end_mark(); })
      .def("metrics_text", &Runtime::metrics_text)
      .def("mark_step", [](Runtime& runtime) { runtime.timeline().mark_step(); })
      .def(
          "mark_commit",
          [](Runtime& runtime, std::uint64_t step) { runtime.timeline().mark_commit(step); },
          py::arg("step"))
      .def(
          "mark_pass",
          [](Runtime& runtime, std::string_view name) { runtime.timeline().mark_pass(name); },
          py::arg("name"));
}

void bind_drills(py::class_<Runtime, RuntimePtr>& binding) {
  binding
      .def("replica_tensors", &replica_tensors, py::arg("step"),
           "Parts of the names of the tensors in which faults are to be planted after this step.")
      .def("plant_in", &plant_in, py::arg("name"), py::arg("dtype"), py::arg("data"),
           py::arg("element_bytes"), py::arg("step"),
           "Plants in these bytes of a tensor, if it is meant. True if they have changed.");
}

}  // namespace

void bind_runtime(py::module_& module) {
  py::class_<Runtime, RuntimePtr> binding(module, "Runtime",
                                          "One membership of this process in a job.");
  binding
      .def_static("create", &create, py::arg("settings"), py::arg("carry") = nullptr,
                  py::arg("has_copies") = false, py::arg("until") = -1,
                  "Joins the job that the environment and `settings` describe. Blocks. Keeps the "
                  "residuals and the tuning of `carry`, which has been shut down; has_copies: so "
                  "do others for ranks that are gone.")
      .def("shutdown", &shut_down, py::arg("why") = "",
           "Leaves the job; `why` is told to the ranks that still wait for this one.")
      .def(
          "setting",
          [](const Runtime& runtime, const std::string& name) {
            return setting_value(runtime.config(), name);
          },
          py::arg("name"), "The value of a setting in this job; empty if there is no such setting.")
      .def(
          "warn",
          [](const Runtime&, std::string_view text) { log(LogLevel::kWarning, "{}", text); },
          py::arg("text"), "Writes a line to the log of this rank.")
      .def("rank", &Runtime::rank)
      .def("size", &Runtime::size)
      .def("local_rank", [](const Runtime& runtime) { return runtime.place().local_rank; })
      .def("local_size", [](const Runtime& runtime) { return runtime.place().local_size; })
      .def("cross_rank", [](const Runtime& runtime) { return runtime.place().cross_rank; })
      .def("cross_size", [](const Runtime& runtime) { return runtime.place().cross_size; })
      .def("ranks_by_host", &ranks_by_host)
      .def("add_process_set", &add_process_set, py::arg("ranks"))
      .def("remove_process_set", &remove_process_set, py::arg("set"))
      .def("open_set", &open_set, py::arg("ranks"), py::arg("name"), py::arg("stall_error"),
           py::arg("timeout"),
           "Makes a set that its ranks alone know of; collective over them. Times in seconds.")
      .def("close_set", &close_set, py::arg("set"), py::arg("timeout"),
           "Leaves a set of open_set(): what is not agreed fails on all its ranks.")
      .def("process_set_ranks",
           [](Runtime& runtime, SetId set) { return unwrap(runtime.process_sets().ranks(set)); })
      .def(
          "process_set_number",
          [](Runtime& runtime, SetId set) { return unwrap(runtime.process_sets().number(set)); },
          py::arg("set"), "The number that scripts know a set by; numbers are used again.")
      .def("has_process_set",
           [](Runtime& runtime, SetId set) { return runtime.process_sets().ranks(set).ok(); })
      .def("process_sets", [](Runtime& runtime) { return runtime.process_sets().ids(); })
      .def("save_residuals", &save_residuals,
           "(process set, tensor, steps, values) of all that error feedback keeps here.")
      .def("load_residuals", &load_residuals, py::arg("saved"), "The inverse.")
      .def("residual_bytes", [](Runtime& runtime) { return runtime.residuals().bytes(); })
      .def("compression_losses", &compression_losses,
           "{(process set, tensor): (norm of what waits, norm of the result)}.")
      .def("describe_backends",
           [](Runtime& runtime) { return runtime.groups().describe_backends(); });
  bind_drills(binding);
  bind_timeline(binding);
  module.def("abandon", &abandon, py::arg("runtime"),
             "Never ends this runtime in this process: for the child of a fork.");
}

}  // namespace ronde::python
