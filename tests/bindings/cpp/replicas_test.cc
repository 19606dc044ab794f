// Job::check_replicas() on jobs of real processes: differences are named, and repaired.
#include <doctest/doctest.h>
#include <ronde/ronde.h>
#include <stdlib.h>

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

constexpr int kRanks = 3;

/// Two tensors that all ranks have alike.
struct Replica {
  std::vector<float> weight = std::vector<float>(8, 0.5F);
  std::vector<std::int64_t> count = {7};

  std::vector<NamedTensor> named() {
    return {{"weight", tensor(weight.data(), {2, 4})}, {"count", tensor(count.data(), {})}};
  }
};

/// The text of the error; empty: there was none.
std::string error_of(Job& job, const std::vector<NamedTensor>& tensors) {
  try {
    (void)job.check_replicas(tensors);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

int check_failing(int rank) {
  Job job = init();
  Replica replica;
  job.mark_step();
  RONDE_CHILD_REQUIRE(job.check_replicas(replica.named()));
  if (rank == 1) replica.weight[6] = 0.25F;
  if (rank == 2) replica.count[0] = 9;
  const std::string text = error_of(job, replica.named());
  RONDE_CHILD_REQUIRE(
      contains(text,
               "the replicas differ after step 1: \"weight\" (float32[2, 4]) has "
               "another value on rank 1 than on rank 0: element [1, 2] is 0.5 "
               "(0x3f000000) on rank 0, 0.25 (0x3e800000) on rank 1; 1 more differ: "
               "\"count\" (int64[]) on rank 2"));
  std::vector<NamedTensor> fewer = replica.named();
  if (rank == 0) fewer.pop_back();
  RONDE_CHILD_REQUIRE(contains(error_of(job, fewer), "more differ: \"count\" (int64[]) on"));
  const NamedTensor twice{"weight", tensor(replica.weight)};
  RONDE_CHILD_REQUIRE(contains(error_of(job, {twice, twice}), "is the name of two tensors"));
  job.barrier();
  return 0;
}

int check_repair(int rank) {
  Job job = init();
  Replica replica;
  if (rank == 0) replica.weight[0] = 3;
  if (rank == 2) replica.count[0] = 9;
  RONDE_CHILD_REQUIRE(!job.check_replicas(replica.named()));
  RONDE_CHILD_REQUIRE(replica.weight == std::vector<float>(8, 0.5F));
  RONDE_CHILD_REQUIRE(replica.count[0] == 7);
  RONDE_CHILD_REQUIRE(job.check_replicas(replica.named()));
  const ProcessSet pair = job.add_process_set({0, 2});
  if (rank == 2) replica.weight[7] = 1;
  if (rank != 1) RONDE_CHILD_REQUIRE(!job.check_replicas(replica.named(), pair));
  RONDE_CHILD_REQUIRE(job.check_replicas(replica.named()));
  return 0;
}

int check_planted(int rank) {
  Job job = init();
  Replica replica;
  for (int step = 1; step <= 3; ++step) {
    job.mark_step();
    const std::string text = error_of(job, replica.named());
    RONDE_CHILD_REQUIRE(text.empty() == (step < 2));
    RONDE_CHILD_REQUIRE(step != 2 || contains(text,
                                              "\"weight\" (float32[2, 4]) has another value "
                                              "on rank 1 than on rank 0: element [0, 3] is "
                                              "0.5 (0x3f000000) on rank 0, 0.125 (0x3e000000)"));
  }
  RONDE_CHILD_REQUIRE((replica.weight[3] == 0.125F) == (rank == 1));
  job.barrier();
  return 0;
}

void run(const char* action, int (*body)(int), const char* inject = "") {
  const std::string id = unique_job_id();
  CHECK(run_ranks(kRanks, [&](int rank) {
          ::setenv("RONDE_JOB_ID", id.c_str(), 1);
          ::setenv("RONDE_RANK", std::to_string(rank).c_str(), 1);
          ::setenv("RONDE_SIZE", std::to_string(kRanks).c_str(), 1);
          ::setenv("RONDE_REPLICA_CHECK", action, 1);
          ::setenv("RONDE_INJECT", inject, 1);
          return body(rank);
        }) == all_good(kRanks));
}

}  // namespace

TEST_CASE("C++ API: replicas that differ are an error on all ranks that names tensor and value") {
  run("fail", check_failing);
}

TEST_CASE("C++ API: a bit that a drill flips in a replica is found in its step") {
  run("fail", check_planted, "--inject flip:rank=1,tensor=weight,step=2,element=3,bit=24");
}

TEST_CASE("C++ API: replicas get the values of most ranks") { run("repair", check_repair); }

}  // namespace ronde
