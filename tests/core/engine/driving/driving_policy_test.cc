#include "core/engine/driving/driving_policy.h"

#include <doctest/doctest.h>

namespace ronde {
namespace {

int waits(BatchingPolicy& policy, int turns, std::size_t gathered) {
  int wanted = 0;
  for (int turn = 0; turn < turns; ++turn) {
    if (!policy.wanted(1)) continue;
    ++wanted;
    policy.learn(gathered);
  }
  return wanted;
}

TEST_CASE("BatchingPolicy: bursts, and what callers take over, are waited for every time") {
  BatchingPolicy policy;
  CHECK(waits(policy, 100, 7) == 100);
  CHECK(waits(policy, 100, 0) == 100);
}

TEST_CASE("BatchingPolicy: what comes one at a time is waited for once in eight times") {
  BatchingPolicy policy;
  CHECK(waits(policy, 81, 1) == 11);
}

TEST_CASE("BatchingPolicy: a burst brings waiting back") {
  BatchingPolicy policy;
  policy.learn(1);
  CHECK_FALSE(policy.wanted(1));
  CHECK(policy.wanted(2));
  policy.learn(5);
  CHECK(policy.wanted(1));
}

int driven(InlineDrivePolicy& policy, int submissions, bool ended) {
  int count = 0;
  for (int i = 0; i < submissions; ++i) {
    if (!policy.wanted()) continue;
    ++count;
    policy.learn(ended);
  }
  return count;
}

TEST_CASE("InlineDrivePolicy: where it pays, every submitter drives") {
  InlineDrivePolicy policy;
  CHECK(driven(policy, 100, true) == 100);
}

TEST_CASE("InlineDrivePolicy: where it is in vain, one submitter in 64 drives in the end") {
  InlineDrivePolicy policy;
  CHECK(driven(policy, 1 + 3 + 7 + 15 + 31, false) == 5);
  driven(policy, 64, false);
  CHECK(driven(policy, 640, false) == 10);
}

TEST_CASE("InlineDrivePolicy: one success brings it back") {
  InlineDrivePolicy policy;
  driven(policy, 1000, false);
  while (!policy.wanted()) {
  }
  policy.learn(true);
  CHECK(driven(policy, 10, true) == 10);
}

}  // namespace
}  // namespace ronde
