#include "core/base/json.h"

#include <doctest/doctest.h>

namespace ronde {
namespace {

TEST_CASE("members keep their order from text to text") {
  const std::string text = R"({"b":1,"a":[true,null,"x"]})";
  CHECK(print_json(parse_json(text)) == text);
  CHECK(json_document(parse_json(R"({"b":1})")) == "{\n  \"b\": 1\n}\n");
}

TEST_CASE("a malformed text is discarded, or told by line and column") {
  CHECK(parse_json("{\"a\":").is_discarded());
  try {
    (void)parse_json_or_throw("{\n\"a\":}");
    FAIL("no exception");
  } catch (const Json::parse_error& error) {
    CHECK(std::string(error.what()).find("line 2, column 5") != std::string::npos);
  }
}

TEST_CASE("bytes that are not UTF-8 are replaced") {
  CHECK(print_json(Json("a\xff"
                        "b")) ==
        "\"a\xef\xbf\xbd"
        "b\"");
}

}  // namespace
}  // namespace ronde
