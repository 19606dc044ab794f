#include "bindings/cli/launch/held_errors.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "bindings/cli/launch/traceback.h"

namespace ronde {
namespace {

const TimePoint kHeldFrom = now();
const std::string kShortTraceback =
    "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 'x'\n";

std::string warning_of(int rank, const char* text) {
  return "[23:04:18.541] ronde " + std::to_string(rank) + " warning: " + text + "\n";
}

}  // namespace

TEST_CASE("held errors: a traceback waits, other output does not") {
  HeldErrors held;
  CHECK(held.feed(0, "working\n", kHeldFrom) == "working\n");
  CHECK(held.feed(0, "more\nTrace", kHeldFrom) == "more\n");
  CHECK(held.feed(0, kShortTraceback.substr(5), kHeldFrom) == "");
  CHECK(held.feed(1, "other\n", kHeldFrom) == "other\n");
  const HeldErrors::Ending ending = held.take(0);
  CHECK(ending.text == kShortTraceback);
  CHECK_FALSE(ending.printed);
  CHECK(held.take(0).text.empty());
}

TEST_CASE("held errors: a traceback with torch.distributed's prefix waits likewise") {
  HeldErrors held;
  CHECK(held.feed(3, "[rank", kHeldFrom) == "");
  CHECK(held.feed(3, "3]: Traceback (most recent call last):\n[rank3]: KeyError\n", kHeldFrom) ==
        "");
  CHECK(held.take(3).text.ends_with("KeyError\n"));
}

TEST_CASE("held errors: a prompt is not held back") {
  HeldErrors held;
  CHECK(held.feed(0, "ready? ", kHeldFrom) == "ready? ");
  CHECK(held.feed(0, "yes\nT", kHeldFrom) == "yes\n");
  CHECK(held.has_partial());
  REQUIRE(held.partials().size() == 1);
  CHECK_FALSE(held.has_partial());
  CHECK(held.feed(0, "he end\n", kHeldFrom) == "he end\n");
}

TEST_CASE("held errors: a traceback of a rank that goes on is printed after a while") {
  HeldErrors held;
  CHECK(held.feed(0, kShortTraceback, kHeldFrom) == "");
  CHECK(held.deadline() == kHeldFrom + HeldErrors::kLongest);
  CHECK(held.due(kHeldFrom).empty());
  const auto due = held.due(kHeldFrom + HeldErrors::kLongest);
  REQUIRE(due.size() == 1);
  CHECK(due[0].second == kShortTraceback);
  CHECK(held.take(0).printed);
}

TEST_CASE("held errors: a traceback that was printed counts unless more follows") {
  HeldErrors held;
  (void)held.feed(0, kShortTraceback, kHeldFrom);
  (void)held.due(kHeldFrom + HeldErrors::kLongest);
  CHECK(held.feed(0, "tried again\n", kHeldFrom) == "tried again\n");
  const HeldErrors::Ending ending = held.take(0);
  CHECK(ending.text.empty());
  CHECK(ending.last_line == "tried again");
}

TEST_CASE("held errors: tracebacks of threads pass") {
  HeldErrors held;
  const std::string text = "Exception in thread Thread-1:\n" + kShortTraceback + "going on\n";
  CHECK(held.feed(0, text, kHeldFrom) == text);
}

TEST_CASE("held errors: without holding everything passes and is followed all the same") {
  HeldErrors held;
  held.hold_nothing();
  CHECK(held.feed(0, kShortTraceback, kHeldFrom) == kShortTraceback);
  const HeldErrors::Ending ending = held.take(0);
  CHECK(ending.text == kShortTraceback);
  CHECK(ending.printed);
}

TEST_CASE("held errors: a post-mortem just before a traceback is a part of it") {
  const std::string post_mortem = warning_of(2, "rank 2 on node: pending: nothing");
  HeldErrors held;
  CHECK(held.feed(2, post_mortem.substr(0, 40), kHeldFrom) == "");
  CHECK(held.feed(2, post_mortem.substr(40), kHeldFrom) == "");
  CHECK(held.feed(2, kShortTraceback, kHeldFrom) == "");
  const HeldErrors::Ending ending = held.take(2);
  CHECK(ending.text == post_mortem + kShortTraceback);
  REQUIRE(read_error(ending.text).has_value());
  CHECK(read_error(ending.text)->error.sentence() == "KeyError: 'x' (a.py:1)");
}

TEST_CASE("held errors: a post-mortem without a traceback is printed") {
  const std::string post_mortem = warning_of(2, "rank 2 on node: pending: nothing");
  HeldErrors held;
  SUBCASE("before the next line") {
    CHECK(held.feed(2, post_mortem, kHeldFrom) == "");
    CHECK(held.feed(2, "saved\n", kHeldFrom) == post_mortem + "saved\n");
    CHECK(held.take(2).last_line == "saved");
  }
  SUBCASE("before a part of a line") {
    CHECK(held.feed(2, post_mortem + "step 3: ", kHeldFrom) == post_mortem + "step 3: ");
    CHECK(held.feed(2, "done\n", kHeldFrom) == "done\n");
  }
  SUBCASE("when its rank ends") {
    CHECK(held.feed(2, post_mortem, kHeldFrom) == "");
    CHECK(held.ranks() == std::vector{2});
    const HeldErrors::Ending ending = held.take(2);
    CHECK(ending.text == post_mortem);
    CHECK_FALSE(ending.printed);
  }
  SUBCASE("after a while") {
    CHECK(held.feed(2, post_mortem, kHeldFrom) == "");
    CHECK(held.deadline() == kHeldFrom + HeldErrors::kLongest);
    const auto due = held.due(kHeldFrom + HeldErrors::kLongest);
    REQUIRE(due.size() == 1);
    CHECK(due[0].second == post_mortem);
    CHECK(held.deadline() == kForever);
    CHECK(held.take(2).text.empty());
  }
}

TEST_CASE("held errors: a warning that all ranks log is printed once") {
  HeldErrors held;
  const char* const stall = "allreduce \"g\" has waited 1 s for rank 1";
  CHECK(held.feed(0, warning_of(0, stall), kHeldFrom) == warning_of(0, stall));
  CHECK(held.feed(2, warning_of(2, stall), kHeldFrom) == "");
  const char* const longer = "allreduce \"g\" has waited 2 s for rank 1";
  CHECK(held.feed(0, warning_of(0, longer), kHeldFrom) == warning_of(0, longer));
  const char* const other = "allreduce \"g\" has waited 1 s for rank 2";
  CHECK(held.feed(2, warning_of(2, other), kHeldFrom) == warning_of(2, other));
  CHECK(held.feed(2, warning_of(2, stall), kHeldFrom + std::chrono::seconds(9)) ==
        warning_of(2, stall));
}

}  // namespace ronde
