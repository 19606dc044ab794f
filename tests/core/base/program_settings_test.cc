#include "core/base/program_settings.h"

#include <doctest/doctest.h>

#include "tests/core/base/environment.h"

namespace ronde {

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

}  // namespace ronde
