// Binds the registry of codecs, from which Python makes its classes, and how texts are read.
#include <string>

#include "bindings/python/bind.h"
#include "ops/compression/describe.h"
#include "ops/compression/registry.h"

namespace py = pybind11;

namespace ronde::python {

namespace {

/// An argument of a codec's class.
py::dict describe(const CodecParameter& parameter, const PythonArgument& argument) {
  py::dict described;
  described["key"] = parameter.key;
  described["argument"] = parameter.argument;
  described["type"] = argument.type;
  described["is_on"] = argument.is_on;
  described["other_word"] = argument.other_word;
  return described;
}

py::dict describe(const CodecRow& row) {
  py::list arguments;
  for (const PythonArgument& one : python_arguments(row)) {
    arguments.append(describe(*one.parameter, one));
  }
  py::list keys;
  for (const CodecParameter& one : row.parameters) keys.append(one.key);
  py::dict described;
  described["name"] = row.name;
  described["title"] = row.title;
  described["doc"] = python_doc(row);
  described["cast"] = row.cast;
  described["arguments"] = arguments;
  described["keys"] = keys;
  return described;
}

CompressionSpec read(const std::string& text) { return unwrap(parse_compression(text)); }

}  // namespace

void bind_codecs(py::module_& module) {
  module.def(
      "codecs",
      [] {
        py::list rows;
        for (const CodecRow* row : kCodecRows) rows.append(describe(*row));
        return rows;
      },
      "The registry of codecs: of each its name, what its class is called and documented as, the "
      "type that it casts to, its arguments in order, and its keys in the order of texts.");
  module.def(
      "compressible_dtypes",
      [] {
        py::list names;
        for (const DTypeTraits& row : kDTypes) {
          const Status status =
              check_compressible(Collective::kAllreduce, row.value, ReduceOp::kSum);
          if (status.ok()) names.append(row.name);
        }
        return names;
      },
      "Names of the element types that can be compressed.");
  module.def(
      "check_compression", [](const std::string& text) { read(text); },
      "Raises InvalidArgumentError, with what is allowed, for what names no codec.");
  module.def(
      "check_codec",
      [](const std::string& collective, const std::string& text) {
        const auto kind = unwrap(parse_collective(collective));
        check(check_codec(kind, read(text)));
      },
      "Raises InvalidArgumentError, with what is allowed, for a codec that a collective does not "
      "take.");
  module.def(
      "block_of", [](const std::string& text) { return read(text).block; },
      "How many elements share a scale; 0 where none do.");
  module.def(
      "fewest_sent_as_little",
      [](const std::string& text) {
        const CompressionSpec spec = read(text);
        return sends_little(spec) ? fewest_elements(spec) : 0;
      },
      "Below how many elements training leaves a tensor dense; 0 with codecs that send much of "
      "it.");
  module.def(
      "training_compression",
      [](const std::string& text) { return to_string(unwrap(training_compression(text))); },
      "What gradients travel as in a training that names a codec: codecs that send little begin "
      "with a warm-up.");
}

}  // namespace ronde::python
