// Binds the table of settings, the job that the environment describes, and how compressions are
// named.
#include <string>

#include "bindings/python/bind.h"
#include "ops/compression/spec.h"

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
  module.def(
      "check_compression", [](const std::string& text) { check(parse_compression(text).status()); },
      "Raises InvalidArgumentError, with what is allowed, for what names no codec.");
  module.def(
      "fewest_sent_as_little",
      [](const std::string& text) {
        const auto spec = parse_compression(text);
        check(spec.status());
        return sends_little(*spec) ? fewest_elements(*spec) : 0;
      },
      "Below how many elements training leaves a tensor dense; 0 with codecs that send much of "
      "it.");
  module.def(
      "training_compression",
      [](const std::string& text) {
        const auto spec = training_compression(text);
        check(spec.status());
        return to_string(*spec);
      },
      "What gradients travel as in a training that names a codec: what sends little begins "
      "with a warm-up.");
}

}  // namespace ronde::python
