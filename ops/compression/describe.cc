#include "ops/compression/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "core/base/join_text.h"

namespace ronde {
namespace {

std::string_view type_of(const WholeNumbers&) { return "int"; }
std::string_view type_of(const RealNumbers&) { return "float"; }
std::string_view type_of(const Words& words) { return words.on < 0 ? "str" : "bool"; }

PythonArgument argument_of(const CodecParameter& parameter, const CompressionSpec& defaults) {
  PythonArgument made{&parameter,
                      std::visit([](const auto& v) { return type_of(v); }, parameter.values)};
  if (made.type != "bool") return made;
  const Words& words = std::get<Words>(parameter.values);
  const std::size_t place = words.get(defaults);
  made.is_on = static_cast<int>(place) == words.on;
  made.other_word = words.words[1 - place];
  return made;
}

/// "int | None = None", "bool = True".
std::string python_default(const PythonArgument& argument) {
  if (argument.type != "bool") return fmt::format("{} | None = None", argument.type);
  return fmt::format("bool = {}", argument.is_on ? "True" : "False");
}

std::string python_class(const CodecRow& row) {
  std::string text = fmt::format("class {}Compressor({}):\n", row.title,
                                 row.cast.empty() ? "AllreduceCompressor" : "CastCompressor");
  text += fmt::format("    \"\"\"{}\"\"\"\n\n    wire: str\n    def __init__(\n        self,\n",
                      python_doc(row));
  for (const PythonArgument& one : python_arguments(row)) {
    text += fmt::format("        {}: {},\n", one.parameter->argument, python_default(one));
  }
  return text + "    ) -> None: ...\n\n";
}

/// Notes on a codec besides its parameters.
std::vector<std::string> notes_on(const CodecRow& row) {
  std::vector<std::string> notes;
  if (row.auto_place) {
    notes.push_back(fmt::format("{}:accuracy={} may choose it", kAutoCodec.name,
                                to_string(row.auto_place->accuracy)));
  }
  if (row.training_warmup > 0) {
    notes.push_back(fmt::format("training begins with warmup={}", row.training_warmup));
  }
  if (row.device_format || row.device_selects != nullptr)
    notes.emplace_back("kernels for tensors in GPU memory");
  return notes;
}

/// A parameter that several codecs have.
struct SharedParameter {
  const CodecParameter* parameter = nullptr;
  std::vector<std::pair<std::string, std::vector<std::string_view>>> codecs;  // by their default
};

void add_codec(SharedParameter& shared, const CodecRow& row) {
  std::string value = shared.parameter->write(row.defaults);
  const auto same = std::find_if(shared.codecs.begin(), shared.codecs.end(),
                                 [&](const auto& one) { return one.first == value; });
  if (same != shared.codecs.end()) return same->second.push_back(row.name);
  shared.codecs.emplace_back(std::move(value), std::vector<std::string_view>{row.name});
}

std::vector<SharedParameter> shared_parameters() {
  std::vector<SharedParameter> all;
  for (const CodecRow* row : kCodecRows) {
    for (const CodecParameter& one : row->parameters) {
      auto same = std::find_if(all.begin(), all.end(), [&](const SharedParameter& shared) {
        return shared.parameter->key == one.key && shared.parameter->help == one.help;
      });
      if (same == all.end()) same = all.insert(all.end(), {&one, {}});
      add_codec(*same, *row);
    }
  }
  return all;
}

/// "512 (int8), 256 (int4)".
std::string defaults_of(const SharedParameter& shared) {
  std::vector<std::string> texts;
  for (const auto& [value, codecs] : shared.codecs) {
    texts.push_back(fmt::format("{} ({})", value, join_text(codecs, ", ")));
  }
  return join_text(texts, ", ");
}

}  // namespace

std::vector<PythonArgument> python_arguments(const CodecRow& row) {
  std::vector<PythonArgument> arguments;
  for (const CodecParameter& one : row.parameters) {
    arguments.push_back(argument_of(one, row.defaults));
  }
  std::stable_partition(arguments.begin(), arguments.end(),
                        [](const PythonArgument& one) { return !one.parameter->stands_last; });
  return arguments;
}

std::string python_doc(const CodecRow& row) {
  std::string text = fmt::format("{}.\n\n", row.summary);
  for (const PythonArgument& one : python_arguments(row)) {
    text += fmt::format("    {}: {}", one.parameter->argument, one.parameter->help);
    if (one.type != "bool") {
      text += fmt::format(" ({}; default {})", one.parameter->allowed(),
                          one.parameter->write(row.defaults));
    }
    text += ".\n";
  }
  return text + "    ";
}

std::string python_types() {
  std::string text =
      "# Written by `ronde doctor --codecs pyi` when the package is built.\n"
      "from ronde._codecs import AllreduceCompressor, CastCompressor\n\n";
  for (const CodecRow* row : kCodecRows) text += python_class(*row);
  text += "class Codecs:\n    \"\"\"The codecs by their names.\"\"\"\n\n";
  for (const CodecRow* row : kCodecRows) {
    text += fmt::format("    {} = {}Compressor\n", row->name, row->title);
  }
  return text;
}

std::string codecs_as_text() {
  std::string text;
  for (const CodecRow* row : kCodecRows) {
    text += fmt::format("{}: {}\n", row->name, row->summary);
    for (const CodecParameter& one : row->parameters) {
      text += fmt::format("  {:<9} {:<8} {} ({})\n", one.key, one.write(row->defaults), one.help,
                          one.allowed());
    }
    for (const std::string& note : notes_on(*row)) text += fmt::format("  {}\n", note);
    text += "\n";
  }
  return text;
}

std::string codecs_as_markdown() {
  std::string text =
      "| parameter | in Python | default | values | meaning |\n|---|---|---|---|---|\n";
  for (const SharedParameter& one : shared_parameters()) {
    text +=
        fmt::format("| `{}` | `{}` | {} | {} | {} |\n", one.parameter->key, one.parameter->argument,
                    defaults_of(one), one.parameter->allowed(), one.parameter->help);
  }
  return text;
}

}  // namespace ronde
