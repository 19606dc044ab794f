#include "core/base/setting_names.h"

#include <doctest/doctest.h>

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

}  // namespace ronde
