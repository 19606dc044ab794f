// The extension module `ronde._core`. It links no framework: tensors come as addresses.
#include <string>

#include "bindings/c/current.h"
#include "bindings/c/ronde_c.h"
#include "bindings/descriptors/passed.h"
#include "bindings/python/bind.h"
#include "core/base/os/interfaces.h"

namespace py = pybind11;

namespace ronde::python {
namespace {

bool handed_out = false;  // c_api() was called; guarded by the GIL

/// Binds the table of settings, the job that the environment describes, and this host's addresses.
void bind_settings(py::module_& module) {
  module.def(
      "settings",
      [] {
        py::list rows;
        for (const SettingInfo& info : setting_infos()) {
          rows.append(py::make_tuple(info.name, info.horovod, info.unit, info.meaning,
                                     setting_value(Config(), info.name)));
        }
        return rows;
      },
      "Rows (name, Horovod's name, unit, meaning, default) of every setting.");
  module.def(
      "launched_job",
      [] {
        const Config config = unwrap(config_from(process_environment()));
        return py::make_tuple(config.rank, config.size, config.job_id);
      },
      "(rank, size, job id) as this process's launcher describes them.");
  module.def(
      "interface_addresses",
      [] {
        py::list rows;
        for (const Interface& each : list_interfaces()) {
          if (!each.up || each.address.is_link_local()) continue;
          rows.append(py::make_tuple(each.name, each.address.host()));
        }
        return rows;
      },
      "Rows (interface, address) of every interface that is up; no link-local addresses.");
}

/// Binds what the launcher has passed to this process.
void bind_descriptors(py::module_& module) {
  module.def(
      "passed_descriptor",
      [](const std::string& variable, int number) {
        auto passed = unwrap(take_passed(variable, number));
        return passed ? passed->release() : number;
      },
      py::arg("variable"), py::arg("number"),
      "The descriptor that the launcher has passed as `variable`, also where a program on the way "
      "has closed it; `number` if it was set by others.");
}

/// Lets plug-ins that frameworks load use this process's one Ronde, by the address of its C API.
void bind_c_api(py::module_& module) {
  module.def(
      "c_api",
      [] {
        handed_out = true;
        return reinterpret_cast<std::uintptr_t>(ronde_c_api(RONDE_C_VERSION));
      },
      "Address of the C API's table of functions (ronde_c.h).");
  module.def(
      "c_api_given", [] { return handed_out; }, "Whether anybody has asked for c_api().");
  module.def(
      "set_current", [](const RuntimePtr& runtime) { set_current_runtime(runtime); },
      py::arg("runtime").none(true),
      "Makes this the job that the C API finds; None: there is none.");
}

}  // namespace
}  // namespace ronde::python

PYBIND11_MODULE(_core, module) {
  module.doc() = "The C++ core of ronde. Use the package `ronde` instead.";
  module.attr("__version__") = RONDE_PYTHON_VERSION;
  using namespace ronde::python;
  bind_operation(module);
  bind_runtime(module);
  bind_sent_gradients(module);
  bind_submit(module);
  bind_torch_memory(module);
  bind_messages(module);
  bind_call_site(module);
  bind_settings(module);
  bind_descriptors(module);
  bind_codecs(module);
  bind_elastic(module);
  bind_elastic_progress(module);
  bind_checkpoint_files(module);
  bind_commit_store(module);
  bind_fingerprint(module);
  bind_c_api(module);
}
