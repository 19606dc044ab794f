#include "core/ports/phases.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/phase_lines.h"

namespace ronde::test {
namespace {

using Lines = std::vector<std::string>;

constexpr std::size_t kStretch = 1000;

/// The reports of so many steps of a collective of `bytes`, with an optional detail.
Lines told_of(std::size_t steps, std::size_t bytes) {
  PhaseLines observer(bytes);
  {
    PhaseSteps told(&observer, "step", steps, kStretch);
    for (std::size_t i = 0; i < steps; ++i) {
      told.next();
      const Phase detail(told.detail(), "wait");
    }
  }
  CHECK(observer.all_ended());
  return observer.lines;
}

TEST_CASE("phase steps: a stretch for each so many bytes, with its last step in detail") {
  CHECK(told_of(3, 3 * kStretch) == Lines{"step 1 of 3", "step 1 of 3/wait", "step 2 of 3",
                                          "step 2 of 3/wait", "step 3 of 3", "step 3 of 3/wait"});
  CHECK(told_of(7, 2 * kStretch) ==
        Lines{"step 1-3 of 7", "step 1-3 of 7/wait", "step 4-7 of 7", "step 4-7 of 7/wait"});
}

TEST_CASE("phase steps: small collectives have none") {
  CHECK(told_of(5, kStretch / 2 - 1).empty());
  CHECK(told_of(0, 9 * kStretch).empty());
}

TEST_CASE("phase steps: however large it is, a phase has a bounded number of stretches") {
  CHECK(told_of(1000, 1000 * kStretch).size() == 2 * PhaseSteps::kMost);
}

TEST_CASE("phase steps: a phase that fails midway ends what it has begun") {
  PhaseLines observer(9 * kStretch);
  {
    PhaseSteps told(&observer, "step", 9, kStretch);
    told.next();
    told.next();
  }
  CHECK(observer.lines == Lines{"step 1 of 9", "step 2 of 9"});
  CHECK(observer.all_ended());
}

TEST_CASE("phase steps: where nobody listens nothing happens") {
  PhaseSteps told(nullptr, "step", 9, kStretch);
  told.next();
  CHECK(told.detail() == nullptr);
  CHECK(beside(nullptr) == nullptr);
}

}  // namespace
}  // namespace ronde::test
