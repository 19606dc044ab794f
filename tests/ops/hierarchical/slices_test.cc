#include "ops/hierarchical/slices.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace ronde {
namespace {

/// Notes the steps; one of them may fail.
struct Noted {
  Status note(char step, std::size_t slice) {
    steps.push_back(step + std::to_string(slice));
    return steps.back() == fails ? Status(Code::kRankFailure, "gone") : Status();
  }
  Status reduce_inside(std::size_t slice) { return note('r', slice); }
  Status reduce_between(std::size_t slice) { return note('b', slice); }
  Status gather_inside(std::size_t slice) { return note('g', slice); }
  std::string fails;
  std::vector<std::string> steps;
};

using Steps = std::vector<std::string>;

Steps steps_of(std::size_t slices) {
  Noted noted;
  CHECK(run_slices(slices, noted).ok());
  return noted.steps;
}

}  // namespace

TEST_CASE("slices: one after another where there is one, and two are under way where there are") {
  CHECK(steps_of(0).empty());
  CHECK(steps_of(1) == Steps{"r0", "b0", "g0"});
  CHECK(steps_of(2) == Steps{"r0", "r1", "b0", "g0", "b1", "g1"});
  CHECK(steps_of(4) ==
        Steps{"r0", "r1", "b0", "g0", "r2", "b1", "g1", "r3", "b2", "g2", "b3", "g3"});
}

TEST_CASE("slices: the first error ends all") {
  Noted noted;
  noted.fails = "b1";
  CHECK(run_slices(4, noted).code() == Code::kRankFailure);
  CHECK(noted.steps.back() == "b1");
}

TEST_CASE("slices: all are cut from the whole in order, and none is longer than the longest") {
  for (const std::size_t count : {0U, 1U, 7U, 1000U, 1001U, 1003U}) {
    for (std::size_t slices = 1; slices < 9; ++slices) {
      std::size_t at = 0;
      for (std::size_t i = 0; i < slices; ++i) {
        const Chunk slice = slice_chunk(count, slices, i);
        CHECK(slice.begin == at);
        CHECK(slice.count <= longest_slice(count, slices));
        at += slice.count;
      }
      CHECK(at == count);
    }
  }
}

TEST_CASE("slices: the first and the last of several are short") {
  CHECK(slice_count(15, 10) == 3);
  CHECK(slice_count(14, 10) == 1);
  CHECK(slice_count(80, 10) == 9);
  CHECK(slice_chunk(1800, 6, 0).count == 100);
  CHECK(slice_chunk(1800, 6, 1).count == 400);
  CHECK(slice_chunk(1800, 6, 4).count == 400);
  CHECK(slice_chunk(1800, 6, 5).count == 100);
}

}  // namespace ronde
