#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <utility>

#include "core/protocol/member.h"
#include "tests/core/protocol/meeting.h"

namespace ronde {
namespace {

Request weighted(std::string name, double weight) {
  Request request = allreduce(std::move(name));
  request.op = ReduceOp::kAverage;
  request.weight = weight;
  return request;
}

}  // namespace

TEST_CASE("Member: the weights of all ranks are added, cached or not, and change at each step") {
  for (const std::string name : {"w", ""}) {
    TestJob job(5, 2);
    for (int step = 0; step < 4; ++step) {
      for (int rank = 0; rank < 5; ++rank) {
        REQUIRE(job.at(rank).submit(weighted(name, rank * 10.0 + step), 3, {}).ok());
      }
      job.deliver();
      for (int rank = 0; rank < 5; ++rank) {
        const Agreed agreed = job.take(rank).at(0);
        CHECK(agreed.status.ok());
        CHECK(agreed.weights == 100.0 + 5 * step);
        CHECK(agreed.request.weight == rank * 10.0 + step);
      }
    }
    CHECK(job.refused() == 0);
    CHECK(job.at(4).stats().full_agreements == 1);
    CHECK(job.at(4).stats().cached_agreements == 3);
  }
}

TEST_CASE("Member: a joined rank has no weight") {
  TestJob job(3);
  REQUIRE(job.at(1).join(9).ok());
  REQUIRE(job.at(0).submit(weighted("w", 2), 1, {}).ok());
  REQUIRE(job.at(2).submit(weighted("w", 3), 1, {}).ok());
  job.deliver();
  for (int rank = 0; rank < 3; ++rank) CHECK(job.take(rank).at(0).weights == 5);
}

TEST_CASE("Member: weights that are not allowed are an error on all ranks, and the job goes on") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  TestJob job(3, 2);
  const auto error = [&](double first, double others) {
    const Agreed agreed = meet(job, weighted("w", first), weighted("w", others));
    CHECK(agreed.status.code() == Code::kInvalidArgument);
    return agreed.status.message();
  };
  for (int round = 0; round < 2; ++round) {  // not cached, then cached
    CHECK(error(-1, 1) ==
          "allreduce \"w\": rank 0 submitted weight -1 (train.py:10); allowed: finite, 0 or more");
    CHECK(error(nan, 1).find("weight nan") != std::string::npos);
    CHECK(error(kInfinity, 1).find("weight inf") != std::string::npos);
    CHECK(error(0, 0) ==
          "allreduce \"w\": the weights of all ranks are 0; allowed: at least one above 0");
    CHECK(error(1e308, 1e308).find("is not finite") != std::string::npos);
    CHECK(meet(job, weighted("w", 1), weighted("w", 0)).weights == 1);
  }
}

TEST_CASE("Member: a weight on some ranks only is one error") {
  CHECK(mismatch(weighted("w", 1), [](Request& r) { r.weight.reset(); }) ==
        "allreduce \"w\": rank 0 submitted a weight (train.py:10), rank 1 submitted no weight "
        "(train.py:10)");
}

}  // namespace ronde
