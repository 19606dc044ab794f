#include "core/protocol/batch_applier.h"

#include <doctest/doctest.h>

#include "tests/core/protocol/tree_parts.h"

namespace ronde {
namespace {

/// A batch that agrees on `name` in full and caches it in the first slot.
BatchFrame batch_of(const std::string& name, std::uint64_t sequence) {
  BatchItem item;
  item.request = std::make_shared<const Request>(allreduce(name));
  item.slot = 0;
  BatchFrame batch;
  batch.sequence = sequence;
  batch.items = {item};
  batch.push(-1, 2);
  return batch;
}

}  // namespace

TEST_CASE_FIXTURE(InnerParts, "BatchApplier: what is agreed comes out with ticket and priority") {
  REQUIRE(submit(allreduce("w")).ok());
  const BatchFrame batch = batch_of("w", 1);
  REQUIRE(applier.check(batch).ok());
  applier.apply(batch);
  const auto items = agreed();
  REQUIRE(items.size() == 1);
  CHECK(items[0].ticket == 1);
  CHECK(items[0].priority == 2);
  CHECK(cache.find("w") == 0);
  CHECK(applier.sequence() == 1);
  CHECK_FALSE(applier.check(batch_of("w", 2)).ok());  // not submitted again
}

TEST_CASE_FIXTURE(InnerParts, "BatchApplier: what does not fit this rank's state is refused") {
  REQUIRE(submit(allreduce("w")).ok());
  CHECK(applier.check(batch_of("w", 2)).code() == Code::kInvalidArgument);
  CHECK(applier.check(batch_of("v", 1)).code() == Code::kInvalidArgument);
  BatchFrame unknown;
  unknown.sequence = 1;
  unknown.push(0, 0);
  CHECK(applier.check(unknown).message() == "batch out of protocol: slot 0 holds no named request");
}

TEST_CASE_FIXTURE(InnerParts, "BatchApplier: an early failure is this rank's when it submits") {
  BatchFrame batch;
  batch.sequence = 1;
  batch.items = {early_failure({"w", 0}, Collective::kAllreduce, Code::kStalled, "late")};
  batch.push(-1, 0);
  REQUIRE(applier.check(batch).ok());
  applier.apply(batch);
  CHECK(agreed().at(0).status.code() == Code::kStalled);
  CHECK(submit(allreduce("w")).code() == Code::kStalled);
  CHECK(submit(allreduce("w")).ok());
}

}  // namespace ronde
