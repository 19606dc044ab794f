// The registry of codecs as text: for `ronde doctor`, docs/compression.md and Python.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ops/compression/registry.h"

namespace ronde {

/// One argument of a codec's class in Python.
struct PythonArgument {
  const CodecParameter* parameter = nullptr;
  std::string_view type;             ///< "int", "float", "str" or "bool".
  bool is_on = false;                ///< bool: the default.
  std::string_view other_word = {};  ///< bool: what texts say if the argument is not the default.
};

/// The arguments of a codec's class, in the order in which Python takes them.
std::vector<PythonArgument> python_arguments(const CodecRow& row);

/// The docstring of a codec's class: the summary and a line for each argument.
std::string python_doc(const CodecRow& row);

/// Types and docstrings of all classes: ronde/_codec_classes.pyi of the Python package.
std::string python_types();

/// All codecs with parameters, defaults, values and meanings, in lines for a terminal.
std::string codecs_as_text();

/// The table of parameters of docs/compression.md, in lines of Markdown.
std::string codecs_as_markdown();

}  // namespace ronde
