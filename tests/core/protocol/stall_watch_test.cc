#include "core/protocol/stall_watch.h"

#include <doctest/doctest.h>

namespace ronde {
namespace {

using std::chrono::seconds;

TimePoint second_at(int second) { return TimePoint{} + seconds(second); }

struct Watched {
  OwnOperations own;
  StallWatch watch{seconds(10), seconds(30), own};

  void submit(const std::string& name, int second) {
    Request request;
    request.name = name;
    own.add({name, 0}, 1, request, second_at(second));
    watch.submitted(second_at(second), own.size() == 1);
  }
};

TEST_CASE("StallWatch: an operation is overdue at the warning, and fatal at the error") {
  Watched watched;
  watched.submit("w", 0);
  CHECK(watched.watch.next_deadline() == second_at(10));
  CHECK(watched.watch.on_time(second_at(9)).empty());
  REQUIRE(watched.watch.on_time(second_at(10)).size() == 1);
  const auto fatal = watched.watch.on_time(second_at(30));
  REQUIRE(fatal.size() == 1);
  CHECK(fatal[0].fatal);
}

TEST_CASE("StallWatch: an operation is asked about once, and not after it is settled") {
  Watched watched;
  watched.watch.note({{"w", 0}, false, false}, second_at(10));
  watched.watch.note({{"w", 0}, false, false}, second_at(11));
  const auto query = watched.watch.next_query();
  REQUIRE(query);
  CHECK(query->keys.size() == 1);
  watched.watch.note({{"v", 0}, false, false}, second_at(11));
  watched.watch.settled({"v", 0});
  CHECK_FALSE(watched.watch.next_query());
}

TEST_CASE("StallWatch: facts are judged by the time waited") {
  Watched watched;
  const auto verdict = watched.watch.judge({{{"a", 0}, 0, {1}, 5'000, {}},
                                            {{"b", 0}, 0, {1}, 12'000, {}},
                                            {{"c", 0}, 0, {1}, 31'000, {}}});
  REQUIRE(verdict.failures.size() == 1);
  CHECK(verdict.failures[0].name == "c");
  CHECK(verdict.failures[0].code == Code::kStalled);
  CHECK(verdict.warnings.size() == 2);
}

}  // namespace
}  // namespace ronde
