// Binds the table of settings and the job that the environment describes.
#include <string>

#include "bindings/python/bind.h"

namespace py = pybind11;

namespace ronde::python {

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
}

}  // namespace ronde::python
