// Job::sparse_allreduce_async() on jobs of real processes: sums by index, and errors on all ranks.
#include <doctest/doctest.h>
#include <ronde/ronde.h>
#include <stdlib.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/backends/net/processes.h"
#include "tests/support/contains.h"

namespace ronde {
namespace {

using net::all_good;
using net::run_ranks;
using net::unique_job_id;
using test::contains;

/// Every rank gives row 5 twice, and the row of its own number.
int check_rows(int rank) {
  Job job = init();
  std::vector<double> rows = {1, 2, 10, 20, 1, 2};
  const std::vector<std::int64_t> indices = {5, rank, 5};
  const Pending sum = job.sparse_allreduce_async("rows", tensor(rows.data(), {3, 2}), indices, 6,
                                                 {.op = ReduceOp::kSum});
  const std::vector<std::int64_t> wanted = {0, 1, 2, 5};
  RONDE_CHILD_REQUIRE(sum.indices() == wanted);
  const Array sums = sum.output();
  RONDE_CHILD_REQUIRE(sums.count() == 8);
  RONDE_CHILD_REQUIRE(sums.as<double>()[3] == 20 && sums.as<double>()[6] == 6);
  try {
    job.sparse_allreduce_async("rows", tensor(rows.data(), {3, 2}), indices, rank == 1 ? 3 : 6)
        .wait();
  } catch (const InvalidArgument& error) {
    RONDE_CHILD_REQUIRE(
        contains(error.what(), "rank 1 of the group gave index 5; allowed: 0 to 2"));
    return 0;
  }
  return 1;
}

}  // namespace

TEST_CASE("C++ API: rows of equal index are added up; a wrong index is an error on all ranks") {
  const std::string id = unique_job_id();
  CHECK(run_ranks(3, [&](int rank) {
          ::setenv("RONDE_JOB_ID", id.c_str(), 1);
          ::setenv("RONDE_RANK", std::to_string(rank).c_str(), 1);
          ::setenv("RONDE_SIZE", "3", 1);
          return check_rows(rank);
        }) == all_good(3));
}

}  // namespace ronde
