#include "ops/compression/describe.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "tests/support/contains.h"

namespace ronde {
namespace {

using test::contains;

std::string names_of(const CodecRow& row) {
  std::string names;
  for (const PythonArgument& one : python_arguments(row)) {
    names += std::string(one.parameter->argument) + " ";
  }
  return names;
}

std::string read_file(const char* path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("Python's arguments stand in the order that scripts rely on") {
  CHECK(names_of(codec_row(CodecKind::kFp16)) == "error_feedback residual ");
  CHECK(names_of(codec_row(CodecKind::kInt8)) == "block stochastic seed error_feedback residual ");
  CHECK(names_of(codec_row(CodecKind::kOnebit)) == "block error_feedback residual warmup ");
  CHECK(names_of(codec_row(CodecKind::kTopk)) ==
        "ratio sampled momentum nesterov masking warmup clip error_feedback residual ");
  CHECK(names_of(codec_row(CodecKind::kRandomk)) == "ratio seed error_feedback residual warmup ");
  CHECK(names_of(codec_row(CodecKind::kPowersgd)) == "rank seed error_feedback residual warmup ");
  CHECK(names_of(codec_row(CodecKind::kAuto)) == "accuracy residual ");
}

TEST_CASE("A switch of Python's says how texts write what is not its default") {
  for (const PythonArgument& one : python_arguments(codec_row(CodecKind::kInt8))) {
    if (one.parameter->key == "rounding") {
      CHECK(one.type == "bool");
      CHECK_FALSE(one.is_on);
      CHECK(one.other_word == "stochastic");
    } else if (one.parameter->key == "ef") {
      CHECK(one.is_on);
      CHECK(one.other_word == "off");
    }
  }
  CHECK(python_arguments(codec_row(CodecKind::kFp16))[0].other_word == "on");
}

TEST_CASE("Every form has every codec and parameter") {
  const std::string text = codecs_as_text(), table = codecs_as_markdown(), types = python_types();
  for (const CodecRow* row : kCodecRows) {
    CAPTURE(row->name);
    CHECK(contains(text, std::string(row->name) + ": " + std::string(row->summary)));
    CHECK(contains(types, std::string("    ") + std::string(row->name) + " = "));
    for (const CodecParameter& one : row->parameters) {
      CAPTURE(one.key);
      CHECK(contains(text, one.allowed()));
      CHECK(contains(table, "| `" + std::string(one.key) + "` | `" + std::string(one.argument)));
    }
  }
  CHECK(contains(table, "512 (int8), "));
  CHECK(contains(table, "64 (onebit)"));
  CHECK(contains(types, "        block: int | None = None,\n        stochastic: bool = False,\n"));
}

TEST_CASE("The guide's table of parameters is the registry's") {
  INFO("`ronde doctor --codecs markdown` writes the table of docs/compression.md");
  CHECK(contains(read_file(RONDE_DOCS "/compression.md"), codecs_as_markdown()));
}

}  // namespace ronde
