#include <doctest/doctest.h>

#include "tests/core/protocol/harness.h"

namespace ronde {
namespace {

Request summed(const std::string& name) {
  Request request;
  request.name = name;
  request.tensors = {{DType::kFloat32, {2}}};
  return request;
}

}  // namespace

TEST_CASE("Member: once a rank has left, pending and later operations fail naming it") {
  for (int leaver = 0; leaver < 5; ++leaver) {
    TestJob job(5, 2);
    const int waiting = (leaver + 1) % 5;
    REQUIRE(job.at(waiting).submit(summed("w"), 9, {}).ok());
    job.deliver();
    job.at(leaver).leave();
    job.deliver();
    const auto items = job.take(waiting);
    REQUIRE(items.size() == 1);
    CHECK(items[0].ticket == 9);
    CHECK(items[0].status.code() == Code::kRankFailure);
    CHECK(items[0].status.failed_rank()->rank == leaver);
    for (int rank = 0; rank < 5; ++rank) {
      CHECK(job.at(rank).closed());
      CHECK(job.at(rank).submit(summed("v"), 1, {}).code() == Code::kRankFailure);
      CHECK(job.at(rank).join(2).code() == Code::kRankFailure);
    }
  }
}

TEST_CASE("Member: why a rank leaves is told to all, cut where it is long") {
  for (const int leaver : {0, 4}) {
    for (const std::size_t length : {std::size_t{20}, std::size_t{100'000}}) {
      TestJob job(5, 2);
      job.at(leaver).leave(std::string(length, 'w'));
      job.deliver();
      for (int rank = 0; rank < 5; ++rank) {
        const Status status = job.at(rank).submit(summed("v"), 1, {});
        CHECK(status.message() == "rank " + std::to_string(leaver) + " has left the job: " +
                                      std::string(std::min<std::size_t>(length, 512), 'w'));
      }
    }
  }
}

TEST_CASE("Member: what was complete before a rank left is agreed on all ranks") {
  TestJob job(2);
  REQUIRE(job.at(0).submit(summed("w"), 1, {}).ok());
  REQUIRE(job.at(1).submit(summed("w"), 1, {}).ok());
  job.at(1).leave();
  job.deliver();
  for (int rank = 0; rank < 2; ++rank) {
    const auto items = job.take(rank);
    REQUIRE(items.size() == 1);
    CHECK(items[0].status.ok());
  }
}

TEST_CASE("Member: a join that waits fails when a rank leaves, and all may leave at once") {
  TestJob job(3);
  REQUIRE(job.at(0).join(4).ok());
  for (int rank = 0; rank < 3; ++rank) job.at(rank).leave();
  job.deliver();
  const auto items = job.take(0);
  REQUIRE(items.size() == 1);
  CHECK(items[0].ticket == 4);
  CHECK(items[0].status.code() == Code::kRankFailure);
  for (int rank = 0; rank < 3; ++rank) CHECK(job.at(rank).closed());
}

TEST_CASE("Member: an operation that waits for a rank that left names it, and a likely cause") {
  TestJob job(3);
  for (int rank = 0; rank < 3; ++rank) REQUIRE(job.at(rank).submit(allreduce("w"), 1, {}).ok());
  job.deliver();
  job.at(1).leave();
  job.deliver();
  const std::string known = job.at(0).waits_for_leaver(allreduce("w"));
  CHECK(
      known.starts_with("; allreduce \"w\" (train.py:10) waits for it: rank 1 probably has fewer "
                        "batches than the others (uneven data, or an early stop). Give all"));
  CHECK(job.at(2).waits_for_leaver(allreduce("w")) == known);
  CHECK(job.at(0).waits_for_leaver(allreduce("v")) ==
        "; allreduce \"v\" (train.py:10) waits for it");
  CHECK(job.at(0).waits_for_leaver(allreduce("")) == "; allreduce (train.py:10) waits for it");
  CHECK(job.at(0).waits_for_leaver(request_for(Collective::kJoin, "")) ==
        "; join (train.py:10) waits for it. All ranks must call join() before they leave");
}

TEST_CASE("Member: a rank that leaves with a reason, or in the middle, has not run out of data") {
  for (const bool in_flight : {false, true}) {
    TestJob job(2);
    for (int rank = 0; rank < 2; ++rank) REQUIRE(job.at(rank).submit(allreduce("w"), 1, {}).ok());
    job.deliver();
    if (in_flight) REQUIRE(job.at(1).submit(allreduce("v"), 2, {}).ok());
    job.at(1).leave(in_flight ? "" : "ValueError: no data");
    job.deliver();
    CHECK(job.at(0).waits_for_leaver(allreduce("w")) ==
          "; allreduce \"w\" (train.py:10) waits for it");
    const std::string why =
        in_flight ? "it has not waited for allreduce \"v\"" : "ValueError: no data";
    CHECK(job.at(0).submit(allreduce("w"), 3, {}).message() == "rank 1 has left the job: " + why);
  }
}

}  // namespace ronde
