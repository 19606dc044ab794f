// Lets plug-ins that frameworks load use this process's one Ronde: the address of its C API.
#include "bindings/c/current.h"
#include "bindings/c/ronde_c.h"
#include "bindings/python/bind.h"

namespace py = pybind11;

namespace ronde::python {

namespace {

bool handed_out = false;  // guarded by the GIL

}  // namespace

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

}  // namespace ronde::python
