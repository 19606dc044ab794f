#include "core/engine/queues/partition.h"

#include <doctest/doctest.h>

#include <cstring>
#include <numeric>

namespace ronde {
namespace {

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
  Bundle ready;
};

std::size_t bytes_of(const Bundle& part) { return agreed_bytes(part); }

/// Every byte of the whole exactly once, in order.
void check_covers(const std::vector<Bundle>& parts, const std::vector<float>& data) {
  const auto* next = reinterpret_cast<const std::byte*>(data.data());
  for (const Bundle& part : parts) {
    for (const BundleTensor& tensor : part.tensors) {
      CHECK(tensor.in == next);
      CHECK(tensor.out == next);
      next += static_cast<std::size_t>(element_count(tensor.shape)) * sizeof(float);
    }
  }
  CHECK(next == reinterpret_cast<const std::byte*>(data.data() + data.size()));
}

}  // namespace

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
  for (const Bundle& part : parts) pieces += part.operations.size();
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
  for (const Bundle& part : parts) {
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
