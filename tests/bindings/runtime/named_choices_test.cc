#include "bindings/runtime/named_choices.h"

#include <doctest/doctest.h>

#include <string>

namespace ronde {
namespace {

std::string refusal(std::string_view name, const std::string& value) {
  Config config;
  REQUIRE(set_setting(config, name, value).ok());
  return check_named_choices(config).message();
}

}  // namespace

TEST_CASE("named choices: the defaults, and names that are known, are allowed") {
  CHECK(check_named_choices(Config()).ok());
  CHECK(refusal("RONDE_BACKEND", "tcp").empty());
  CHECK(refusal("RONDE_ALGORITHM", "ring").empty());
  CHECK(refusal("RONDE_COMPRESSION", "none").empty());
  CHECK(refusal("RONDE_COMPRESSION", "topk:ratio=0.01").empty());
}

TEST_CASE("named choices: the variable of a name that is not known is named") {
  CHECK(refusal("RONDE_BACKEND", "tpc").starts_with("RONDE_BACKEND=\"tpc\" is not valid; allowed"));
  CHECK(refusal("RONDE_ALGORITHM", "foo")
            .starts_with("RONDE_ALGORITHM=\"foo\": algorithm 'foo' is not known; allowed: "));
  CHECK(refusal("RONDE_COMPRESSION", "int9")
            .starts_with("RONDE_COMPRESSION=\"int9\": compression 'int9': not known; allowed: "));
}

}  // namespace ronde
