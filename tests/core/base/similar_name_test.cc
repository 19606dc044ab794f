#include "core/base/similar_name.h"

#include <doctest/doctest.h>

#include <array>

namespace ronde {

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
