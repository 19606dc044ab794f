#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>

#include "bindings/cli/command_line.h"
#include "tests/support/contains.h"
#include "tests/timeline/scratch.h"

namespace ronde {
namespace {

using test::contains;

struct Read {
  Arguments flags;
  Arguments unknown;
};

Read read(std::string_view text, const Arguments& given = {}) {
  Read read;
  auto flags = horovod_config_flags(text, given, read.unknown);
  REQUIRE_MESSAGE(flags.ok(), flags.status().to_string());
  read.flags = std::move(flags).value();
  return read;
}

std::string refusal(std::string_view text) {
  Arguments unknown;
  const auto flags = horovod_config_flags(text, {}, unknown);
  REQUIRE(!flags.ok());
  CHECK(flags.status().code() == Code::kInvalidArgument);
  return flags.status().message();
}

}  // namespace

TEST_CASE("--config-file: sections and values become flags") {
  const Read got = read(
      "# tuning\n"
      "autotune:\n"
      "  enabled: yes  # a flag without a value\n"
      "params:\n"
      "  fusion_threshold_mb: 32\n"
      "timeline:\n"
      "  filename: \"/tmp/a b.json\"\n");
  CHECK(got.flags == Arguments{"--autotune", "--fusion-threshold-mb", "32", "--timeline-filename",
                               "/tmp/a b.json"});
  CHECK(got.unknown.empty());
}

TEST_CASE("--config-file: a value that is off gives the opposite flag, one of null none") {
  CHECK(read("params:\n  torus_allreduce: off\n").flags == Arguments{"--no-torus-allreduce"});
  CHECK(read("params:\n  torus_allreduce:\n").flags.empty());
  CHECK(read("params:\n  fusion_threshold_mb:\n").flags.empty());
  CHECK(read("").flags.empty());
}

TEST_CASE("--config-file: flags of the command line win") {
  CHECK(read("params:\n  fusion_threshold_mb: 32\n", {"--fusion-threshold-mb", "8"}).flags.empty());
}

TEST_CASE("--config-file: keys without a meaning are told") {
  CHECK(read("params:\n  colour: red\n").unknown == Arguments{"params.colour"});
}

TEST_CASE("--config-file: what is no YAML of two levels is refused with its line") {
  CHECK(contains(refusal("params:\n  - 1\n"), "line 2, \"- 1\": allowed are"));
  CHECK(contains(refusal("params:\n  a:\n    b: 1\n"), "line 3, \"b: 1\": allowed are"));
  CHECK(contains(refusal("- 1\n"), "line 1, \"- 1\": allowed are"));
  CHECK(contains(refusal("a: [1, 2]\n"), "line 1, \"a: [1, 2]\": allowed are"));
  CHECK(contains(refusal("params: {a: 1\n"), "line 2, \"\": "));
}

TEST_CASE("--config-file: the words of the file take the place of its name") {
  const ScratchFolder folder;
  Arguments words = {"-np", "2", "--config-file",
                     folder.write("c.yaml", "autotune: {enabled: true}\n")};
  CHECK(expand_horovod_config(words).ok());
  CHECK(words == Arguments{"--autotune", "-np", "2"});
  Arguments missing = {"--config-file=" + folder.file("none")};
  CHECK(contains(expand_horovod_config(missing).message(), "can be read"));
}

}  // namespace ronde
