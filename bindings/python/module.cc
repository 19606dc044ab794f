// The extension module `ronde._core`. It links no framework: tensors come as addresses.
#include "bindings/python/bind.h"

PYBIND11_MODULE(_core, module) {
  module.doc() = "The C++ core of ronde. Use the package `ronde` instead.";
  module.attr("__version__") = RONDE_PYTHON_VERSION;
  ronde::python::bind_operation(module);
  ronde::python::bind_runtime(module);
  ronde::python::bind_submit(module);
  ronde::python::bind_messages(module);
  ronde::python::bind_call_site(module);
  ronde::python::bind_settings(module);
  ronde::python::bind_codecs(module);
  ronde::python::bind_c_api(module);
}
