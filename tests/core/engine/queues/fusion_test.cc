#include "core/engine/queues/fusion.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "tests/core/protocol/harness.h"

namespace ronde {
namespace {

/// A batch with this rank's operations.
struct AgreedBatch {
  explicit AgreedBatch(std::vector<Request> requests) {
    for (Request& request : requests) {
      Submission submission;
      submission.request = request;
      submission.inputs.resize(request.tensors.size());
      submission.outputs.resize(request.tensors.size());
      operations.push_back(std::make_shared<Operation>(std::move(submission), 1));
      batch.items.emplace_back();
      batch.items.back().request = std::move(request);
    }
  }
  std::vector<QueuedBundle> fuse(std::size_t threshold) const {
    return ronde::fuse(batch, operations, std::vector{0, 1, 4}, threshold);
  }
  std::vector<QueuedBundle> fuse_checked(std::string_view check_mean) const {
    return ronde::fuse(batch, operations, std::vector{0, 1, 4}, 1000, check_mean);
  }
  std::size_t item_of(const OperationPtr& operation) const {
    return static_cast<std::size_t>(std::find(operations.begin(), operations.end(), operation) -
                                    operations.begin());
  }
  Batch batch;
  std::vector<OperationPtr> operations;
};

AgreedBatch batch_of(std::vector<Request> requests) { return AgreedBatch(std::move(requests)); }

/// The bundles as lists of item indices.
std::vector<std::vector<std::size_t>> items_of(const AgreedBatch& batch, std::size_t threshold) {
  std::vector<std::vector<std::size_t>> plan;
  for (const QueuedBundle& ready : batch.fuse(threshold)) {
    plan.emplace_back();
    for (const OperationPtr& operation : ready.operations) {
      plan.back().push_back(batch.item_of(operation));
    }
  }
  return plan;
}

using Plan = std::vector<std::vector<std::size_t>>;

/// A bundle of float32 tensors with so many elements each, all in one array; nothing is null.
struct Whole {
  explicit Whole(std::vector<std::int64_t> counts, Collective kind = Collective::kAllreduce,
                 bool with_outputs = true)
      : data(static_cast<std::size_t>(std::accumulate(counts.begin(), counts.end(), 0L))) {
    ready.kind = kind;
    float* at = data.data();
    for (const std::int64_t count : counts) {
      Submission submission;
      submission.request.kind = kind;
      submission.request.tensors = {{DType::kFloat32, {count}}};
      submission.inputs = {at};
      submission.outputs = {with_outputs ? at : nullptr};
      at += count;
      operations.push_back(std::make_shared<Operation>(std::move(submission), 1));
      ready.operations.push_back(operations.back());
      ready.priorities.push_back(-static_cast<std::int32_t>(ready.priorities.size()));
      ready.tensors.push_back(operations.back()->bundle_tensor(0));
    }
  }
  std::vector<float> data;
  std::vector<OperationPtr> operations;
  QueuedBundle ready;
};

std::size_t bytes_of(const QueuedBundle& part) { return agreed_bytes(part); }

/// Every byte of the whole exactly once, in order.
void check_covers(const std::vector<QueuedBundle>& parts, const std::vector<float>& data) {
  const auto* next = reinterpret_cast<const std::byte*>(data.data());
  for (const QueuedBundle& part : parts) {
    for (const BundleTensor& tensor : part.tensors) {
      CHECK(tensor.in == next);
      CHECK(tensor.out == next);
      next += static_cast<std::size_t>(element_count(tensor.shape)) * sizeof(float);
    }
  }
  CHECK(next == reinterpret_cast<const std::byte*>(data.data() + data.size()));
}

}  // namespace

TEST_CASE("Fusion: operations alike share a bundle up to the threshold") {
  const AgreedBatch batch =
      batch_of({allreduce("a", {4}), allreduce("b", {4}), allreduce("c", {4})});
  CHECK(items_of(batch, 48) == Plan{{0, 1, 2}});
  CHECK(items_of(batch, 47) == Plan{{0, 1}, {2}});
  CHECK(items_of(batch, 0) == Plan{{0}, {1}, {2}});
}

TEST_CASE("Fusion: each tensor whose result came with the agreement has a bundle of its own") {
  Request pair = allreduce("pair", {2});
  pair.tensors.push_back({DType::kInt8, {3}});
  AgreedBatch batch = batch_of({allreduce("a", {4}), pair, allreduce("b", {4})});
  for (int i = 0; i < 11; ++i) batch.batch.items[1].result.push_back(std::byte(i));
  const std::vector<QueuedBundle> bundles = batch.fuse(1000);
  CHECK(items_of(batch, 1000) == Plan{{0, 2}, {1}, {1}});
  CHECK(bundles[0].result.empty());
  CHECK(bundles[1].result.size() == 8);
  CHECK(bundles[2].result == std::vector{std::byte{8}, std::byte{9}, std::byte{10}});
  CHECK(bundles[2].dtype == DType::kInt8);
}

TEST_CASE("Fusion: sums to compare are found by their names, also by ranks that have joined") {
  AgreedBatch batch = batch_of({allreduce("layer1.weight", {4}), allreduce("layer1.bias", {4})});
  batch.operations[0] = nullptr;
  const std::vector<QueuedBundle> bundles = batch.fuse_checked("1.weight");
  const std::vector<BundleTensor>& tensors = bundles[0].tensors;
  CHECK(tensors[0].checks_mean);
  CHECK(!tensors[1].checks_mean);
  CHECK(!batch.fuse_checked("")[0].tensors[0].checks_mean);
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
  AgreedBatch agreed = batch_of(requests);
  Batch& batch = agreed.batch;
  batch.items[17].status = Status(Code::kMismatch, "planted");
  struct Entry {
    std::size_t item;
    std::size_t tensor;
  };
  std::vector<Entry> entries;
  for (const QueuedBundle& ready : agreed.fuse(300)) {
    CHECK_FALSE(ready.operations.empty());
    REQUIRE(ready.operations.size() == ready.tensors.size());
    for (std::size_t i = 0; i < ready.operations.size(); ++i) {
      entries.push_back({agreed.item_of(ready.operations[i]), ready.tensors[i].index});
    }
  }
  std::size_t expected = 0;
  for (std::size_t item = 0; item < batch.items.size(); ++item) {
    const Request& request = batch.items[item].request;
    const bool moved = batch.items[item].status.ok() && request.kind != Collective::kBarrier;
    expected += moved ? request.tensors.size() : 0;
    for (std::size_t tensor = 0; tensor < request.tensors.size(); ++tensor) {
      CHECK(std::count_if(entries.begin(), entries.end(), [&](const Entry& entry) {
              return entry.item == item && entry.tensor == tensor;
            }) == (moved ? 1 : 0));
    }
  }
  CHECK(entries.size() == expected);
}

TEST_CASE("Fusion: a bundle says what its operations agreed on, the root as a rank of the set") {
  Request request = request_for(Collective::kBroadcast, "a");
  request.root = 4;
  request.compression = "fp16";
  const auto bundles = batch_of({request}).fuse(1000);
  REQUIRE(bundles.size() == 1);
  CHECK(bundles[0].kind == Collective::kBroadcast);
  CHECK(bundles[0].dtype == DType::kFloat32);
  CHECK(bundles[0].root == 2);
  CHECK(bundles[0].compression == "fp16");
  CHECK(bundles[0].keys == std::vector<std::string>{"a"});
}

TEST_CASE("Fusion: tensors of one operation keep residuals of their own") {
  Request request = allreduce("a");
  request.tensors.push_back(request.tensors.front());
  request.compression = "fp16";
  const auto bundles = batch_of({request}).fuse(1000);
  REQUIRE(bundles.size() == 1);
  CHECK(bundles[0].keys == std::vector<std::string>{"a[0]", "a[1]"});
}

TEST_CASE("Fusion: a bundle has its first item's priority; each tensor keeps its own") {
  AgreedBatch agreed = batch_of({allreduce("a"), allreduce("b")});
  agreed.batch.items[0].priority = 7;
  agreed.batch.items[1].priority = 3;
  const auto bundles = agreed.fuse(1000);
  REQUIRE(bundles.size() == 1);
  CHECK(bundles[0].priority == 7);
  CHECK(bundles[0].priorities == std::vector<std::int32_t>{7, 3});
}

TEST_CASE("Fusion: a rank that has joined takes part without memory") {
  AgreedBatch agreed = batch_of({allreduce("a", {4})});
  agreed.operations[0] = nullptr;
  const auto bundles = agreed.fuse(1000);
  REQUIRE(bundles.size() == 1);
  CHECK(bundles[0].operations[0] == nullptr);
  CHECK(bundles[0].tensors[0].in == nullptr);
  CHECK(bundles[0].tensors[0].shape == Shape{4});
}

TEST_CASE("Partition: a large tensor is cut into pieces of equal size that cover it") {
  Whole whole({100'000});
  const auto parts = cut_bundle(std::move(whole.ready), 128 << 10);
  REQUIRE(parts.size() == 4);
  check_covers(parts, whole.data);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    CHECK(bytes_of(parts[i]) <= (128 << 10));
    CHECK(bytes_of(parts[i]) + std::size_t{3} * 4096 >= 100'000);
    CHECK(parts[i].partition == static_cast<int>(i) + 1);
  }
}

TEST_CASE("Partition: an operation ends with the last of its pieces, and keeps the first error") {
  Whole whole({100'000, 10});
  const auto parts = cut_bundle(std::move(whole.ready), 128 << 10);
  REQUIRE(parts.size() == 4);
  for (int i = 0; i < 3; ++i) {
    const Status status = i == 1 ? Status(Code::kResourceExhausted, "second") : Status();
    CHECK_FALSE(whole.operations[0]->tensor_finished(status));
  }
  CHECK(whole.operations[0]->tensor_finished({}));
  CHECK(whole.operations[0]->tensors_status().message() == "second");
  CHECK(whole.operations[1]->tensor_finished({}));
}

TEST_CASE("Partition: fused tensors keep their order and whole ones their shape") {
  Whole whole({1000, 0, 50'000, 3, 20'000});
  whole.ready.tensors[0].shape = {10, 100};
  const auto parts = cut_bundle(std::move(whole.ready), 64 << 10);
  REQUIRE(parts.size() == 5);
  check_covers(parts, whole.data);
  CHECK(parts[0].tensors[0].shape == Shape{10, 100});
  CHECK(parts[0].priority == 0);
  CHECK(parts[4].priority == -4);
  std::size_t pieces = 0;
  for (const QueuedBundle& part : parts) pieces += part.operations.size();
  CHECK(pieces > 5);
}

TEST_CASE("Partition: what is small, cannot be cut or has no limit stays whole") {
  CHECK(cut_bundle(Whole({1000}).ready, 4000).size() == 1);
  CHECK(cut_bundle(Whole({1001}).ready, 4000).size() == 1);  // no cut within a page
  CHECK(cut_bundle(Whole({100'000}).ready, 0).size() == 1);
  CHECK(cut_bundle(Whole({100'000}, Collective::kAllgather).ready, 4096).size() == 1);
  CHECK(cut_bundle(Whole({100'000}, Collective::kReduceScatter).ready, 4096).size() == 1);
  CHECK(cut_bundle(Whole({100'000}, Collective::kBroadcast).ready, 200'000).size() == 2);
  Whole compressed({100'000});
  compressed.ready.compression = "int8";
  CHECK(cut_bundle(compressed.ready, 4096).size() == 1);
  Whole adasum({100'000});
  adasum.ready.op = ReduceOp::kAdasum;
  CHECK(cut_bundle(adasum.ready, 4096).size() == 1);
}

TEST_CASE("Partition: an output without memory is allocated once, whole") {
  Whole whole({100'000}, Collective::kAllreduce, false);
  const auto parts = cut_bundle(std::move(whole.ready), 128 << 10);
  REQUIRE(parts.size() == 4);
  std::size_t offset = 0;
  const std::byte* base = nullptr;
  for (const QueuedBundle& part : parts) {
    const BundleTensor& tensor = part.tensors[0];
    const auto memory = (*tensor.allocate)(tensor.index, tensor.shape);
    REQUIRE(memory.ok());
    if (base == nullptr) base = static_cast<const std::byte*>(*memory);
    CHECK(*memory == base + offset);
    std::memset(*memory, 1, bytes_of(part));
    offset += bytes_of(part);
  }
  REQUIRE(whole.operations[0]->owned_outputs().size() == 1);
  CHECK(whole.operations[0]->owned_outputs()[0].shape == Shape{100'000});
}

TEST_CASE("Partition: a rank that has joined cuts as the others do") {
  Whole whole({100'000});
  whole.ready.operations[0] = nullptr;
  BundleTensor& tensor = whole.ready.tensors[0];
  tensor = {};
  tensor.shape = {1000, 100};
  const auto parts = cut_bundle(std::move(whole.ready), 128 << 10);
  REQUIRE(parts.size() == 4);
  CHECK(parts[3].tensors[0].in == nullptr);
}

}  // namespace ronde
