// Submissions that meet: one request on rank 0, and the same or another on all other ranks.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/core/protocol/harness.h"

namespace ronde {

/// Submits `first` on rank 0 and `second` on the others, and returns what all agreed on.
inline Agreed meet(TestJob& job, const Request& first, const Request& second) {
  for (int rank = 0; rank < job.size(); ++rank) {
    REQUIRE(job.at(rank).submit(rank == 0 ? first : second, 5, {}).ok());
  }
  job.deliver();
  Agreed agreed;
  for (int rank = 0; rank < job.size(); ++rank) {
    const std::vector<Agreed> items = job.take(rank);
    REQUIRE(items.size() == 1);
    if (rank > 0) CHECK(items[0].status.to_string() == agreed.status.to_string());
    CHECK(items[0].ticket == 5);
    agreed = items[0];
  }
  CHECK(job.refused() == 0);
  return agreed;
}

/// The result on all ranks of a warm job if `change` alters rank 1's submission.
inline std::string mismatch(Request request, const std::function<void(Request&)>& change) {
  TestJob job(2);
  CHECK(meet(job, request, request).status.ok());
  Request changed = request;
  change(changed);
  const Agreed failed = meet(job, request, changed);
  CHECK(failed.status.code() == Code::kMismatch);
  CHECK(meet(job, request, request).status.ok());  // the job goes on
  CHECK(meet(job, changed, changed).status.ok());
  return failed.status.message();
}

}  // namespace ronde
