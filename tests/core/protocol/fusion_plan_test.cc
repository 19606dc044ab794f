#include "core/protocol/fusion_plan.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/core/protocol/harness.h"

namespace ronde {
namespace {

Batch batch_of(std::vector<Request> requests) {
  Batch batch;
  for (Request& request : requests) {
    batch.items.emplace_back();
    batch.items.back().request = std::move(request);
  }
  return batch;
}

/// The plan as lists of item indices.
std::vector<std::vector<std::size_t>> items_of(const Batch& batch, std::size_t threshold) {
  std::vector<std::vector<std::size_t>> plan;
  for (const PlannedBundle& bundle : plan_fusion(batch, threshold)) {
    plan.emplace_back();
    for (const PlanEntry& entry : bundle.entries) plan.back().push_back(entry.item);
  }
  return plan;
}

using Plan = std::vector<std::vector<std::size_t>>;

}  // namespace

TEST_CASE("Fusion: operations alike share a bundle up to the threshold") {
  const Batch batch = batch_of({allreduce("a", {4}), allreduce("b", {4}), allreduce("c", {4})});
  CHECK(items_of(batch, 48) == Plan{{0, 1, 2}});
  CHECK(items_of(batch, 47) == Plan{{0, 1}, {2}});
  CHECK(items_of(batch, 0) == Plan{{0}, {1}, {2}});
}

TEST_CASE("Fusion: looks ahead past what does not fit") {
  Request other = allreduce("b", {4});
  other.tensors[0].dtype = DType::kInt32;
  CHECK(items_of(batch_of({allreduce("a", {4}), other, allreduce("c", {4})}), 1000) ==
        Plan{{0, 2}, {1}});
  CHECK(items_of(batch_of({allreduce("a", {4}), allreduce("b", {9}), allreduce("c", {4})}), 40) ==
        Plan{{0, 2}, {1}});
}

TEST_CASE("Fusion: whatever must be equal keeps operations apart") {
  const auto apart = [](Collective kind, auto change) {
    Request changed = request_for(kind, "b");
    change(changed);
    return items_of(batch_of({request_for(kind, "a"), changed}), 1000).size() == 2;
  };
  CHECK_FALSE(apart(Collective::kAllreduce, [](Request&) {}));
  CHECK(apart(Collective::kAllreduce, [](Request& r) { r.op = ReduceOp::kMax; }));
  CHECK(apart(Collective::kAllreduce, [](Request& r) { r.prescale = 2; }));
  CHECK(apart(Collective::kAllreduce, [](Request& r) { r.postscale = 2; }));
  CHECK(apart(Collective::kAllreduce, [](Request& r) { r.compression = "fp16"; }));
  CHECK(apart(Collective::kAllreduce, [](Request& r) { r.device.kind = DeviceKind::kCuda; }));
  CHECK(apart(Collective::kAllreduce, [](Request& r) { r.kind = Collective::kReduce; }));
  CHECK(apart(Collective::kBroadcast, [](Request& r) { r.root = 1; }));
  CHECK(apart(Collective::kGather, [](Request&) {}));
  CHECK(apart(Collective::kAlltoall, [](Request&) {}));
  CHECK_FALSE(apart(Collective::kReduceScatter, [](Request&) {}));
}

TEST_CASE("Fusion: allgather counts one row, which all ranks know") {
  const auto plan = [](std::int64_t rows) {
    return items_of(batch_of({request_for(Collective::kAllgather, "a", {rows, 4}),
                              request_for(Collective::kAllgather, "b", {rows, 4})}),
                    32);
  };
  CHECK(plan(1) == Plan{{0, 1}});
  CHECK(plan(1000) == plan(1));
}

TEST_CASE("Fusion: joins, barriers and failures get no bundle, every other tensor exactly one") {
  std::vector<Request> requests;
  for (int i = 0; i < 200; ++i) {
    requests.push_back(request_for(static_cast<Collective>(i % 9), "t", {i % 7, 5}));
    if (i % 3 == 0 && i % 9 != 4 && i % 9 != 8)
      requests.back().tensors.push_back({DType::kInt8, {i}});
  }
  requests.emplace_back().kind = Collective::kJoin;
  Batch batch = batch_of(requests);
  batch.items[17].status = Status(Code::kMismatch, "planted");
  std::vector<PlanEntry> entries;
  for (const PlannedBundle& bundle : plan_fusion(batch, 300)) {
    CHECK_FALSE(bundle.entries.empty());
    entries.insert(entries.end(), bundle.entries.begin(), bundle.entries.end());
  }
  std::size_t expected = 0;
  for (std::size_t item = 0; item < batch.items.size(); ++item) {
    const Request& request = batch.items[item].request;
    const bool moved = batch.items[item].status.ok() && request.kind != Collective::kBarrier;
    expected += moved ? request.tensors.size() : 0;
    for (std::size_t tensor = 0; tensor < request.tensors.size(); ++tensor) {
      CHECK(std::count_if(entries.begin(), entries.end(), [&](const PlanEntry& entry) {
              return entry.item == item && entry.tensor == tensor;
            }) == (moved ? 1 : 0));
    }
  }
  CHECK(entries.size() == expected);
}

}  // namespace ronde
