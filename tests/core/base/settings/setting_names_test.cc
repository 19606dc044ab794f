#include "core/base/settings/setting_names.h"

#include <doctest/doctest.h>

#include <array>

#include "tests/core/base/environment.h"

namespace ronde {
namespace {

std::vector<NamedValue> named(const std::vector<std::string>& names) {
  std::vector<NamedValue> variables;
  for (const std::string& name : names) variables.push_back({name, "1"});
  return variables;
}

}  // namespace

TEST_CASE("a variable that is no setting is named, with the one that was perhaps meant") {
  const std::vector<std::string> names = {"PATH", "RONDE_TIMELIN", "RONDE_FUSION_SIZE",
                                          "RONDE_TIMELINE", "RONDE_STALL_WARNING_SECOND"};
  CHECK(describe_unknown_settings(named(names)) ==
        std::vector<std::string>{
            "RONDE_TIMELIN is no setting and has no effect; RONDE_TIMELINE is",
            "RONDE_FUSION_SIZE is no setting and has no effect; `ronde doctor --settings` lists "
            "them",
            "RONDE_STALL_WARNING_SECOND is no setting and has no effect; "
            "RONDE_STALL_WARNING_SECONDS is"});
}

TEST_CASE("a variable that a program reads itself is known, and may be the one that was meant") {
  CHECK(describe_unknown_settings(named({"RONDE_AGENT_ADDRESS", "RONDE_TRACEBACKS"})).empty());
  CHECK(describe_unknown_settings(named({"RONDE_TRACEBACK"})).front() ==
        "RONDE_TRACEBACK is no setting and has no effect; RONDE_TRACEBACKS is");
}

TEST_CASE("variables of Ronde's programs and of tests are left alone") {
  const std::vector<std::string> names = {"RONDE_EXIT_LOG_FD", "RONDE_DESCRIPTORS", "RONDE_PYTHON",
                                          "RONDE_TEST_X",      "RONDE_CHAOS_X",     "ROND"};
  CHECK(describe_unknown_settings(named(names)).empty());
}

using test::environment_of;

TEST_CASE("program settings: the value of each that is unset is allowed") {
  for (const ProgramSetting& setting : program_settings()) {
    CAPTURE(setting.info.name);
    const std::string value(setting.otherwise);
    CHECK_FALSE(setting.info.meaning.empty());
    CHECK(check_program_settings(environment_of({{std::string(setting.info.name), value}})).ok());
  }
}

TEST_CASE("program settings: a value that is not allowed names variable, value and choices") {
  const Status refused = check_program_settings(environment_of({{"RONDE_LEAVE_SIGNAL", "FOO"}}));
  CHECK(refused.code() == Code::kInvalidArgument);
  CHECK(refused.message() == "RONDE_LEAVE_SIGNAL=\"FOO\" is not valid; allowed: TERM, USR1, off");
}

TEST_CASE("program settings: an address may be any text") {
  CHECK(check_program_settings(environment_of({{"RONDE_AGENT_ADDRESS", "10.0.0.7"}})).ok());
}

TEST_CASE("similar name: mistyped letters, and letters in the wrong order") {
  const std::array<std::string_view, 4> names = {"report", "diff", "view", "timeline"};
  CHECK(similar_name("reprot", names) == "report");
  CHECK(similar_name("timelin", names) == "timeline");
  CHECK(similar_name("veiw", names) == "view");
  CHECK(similar_name("dance", names).empty());
  CHECK(similar_name("", names).empty());
  CHECK(similar_name("x", {}).empty());
}

}  // namespace ronde
