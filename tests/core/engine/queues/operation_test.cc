#include "core/engine/queues/operation.h"

#include <doctest/doctest.h>

#include <utility>

namespace ronde {
namespace {

Submission two_tensors() {
  Submission submission;
  submission.request.name = "pair";
  submission.request.tensors = {{DType::kFloat32, {2}}, {DType::kFloat32, {3}}};
  submission.inputs = {nullptr, nullptr};
  submission.outputs = {nullptr, nullptr};
  return submission;
}

}  // namespace

TEST_CASE("Operation: it is done with its last tensor and keeps the first error") {
  Operation operation(two_tensors(), 1);
  CHECK_FALSE(operation.tensor_finished(Status(Code::kTimeout, "first")));
  CHECK(operation.tensor_finished(Status(Code::kInternal, "second")));
  CHECK(operation.tensors_status().message() == "first");
}

TEST_CASE("Operation: the callback comes before done, and once") {
  int calls = 0;
  bool done_in_callback = true;
  Submission submission = two_tensors();
  submission.on_done = [&](Operation& ended) {
    ++calls;
    done_in_callback = ended.done();
  };
  Operation operation(std::move(submission), 1);
  operation.finish({});
  operation.finish(Status(Code::kInternal, "late"));
  CHECK(calls == 1);
  CHECK_FALSE(done_in_callback);
  CHECK(operation.status().ok());
}

TEST_CASE("Operation: outputs without memory are allocated and owned, also empty ones") {
  Operation operation(two_tensors(), 1);
  const BundleTensor tensor = operation.bundle_tensor(1);
  const auto memory = (*tensor.allocate)(tensor.index, {4, 3});
  REQUIRE(memory.ok());
  CHECK(operation.owned_outputs()[1].shape == Shape{4, 3});
  CHECK(static_cast<void*>(operation.owned_outputs()[1].data.get()) == *memory);
  CHECK(*(*tensor.allocate)(0, {0, 3}) == nullptr);
}

TEST_CASE("Operation: its bytes are those of all its tensors") {
  const Operation operation(two_tensors(), 1);
  std::size_t sum = 0;
  for (const TensorMeta& tensor : operation.submission().request.tensors) {
    sum += static_cast<std::size_t>(element_count(tensor.shape)) * size_of(tensor.dtype);
  }
  CHECK(operation.input_bytes() == sum);
  CHECK(sum > 0);
}

TEST_CASE("Operation: its timeline names are Horovod's") {
  Operation operation(two_tensors(), 1);
  operation.make_label();
  CHECK(operation.label() == "allreduce.pair");
  CHECK(operation.negotiation_event() == "NEGOTIATE_ALLREDUCE");
  Submission barrier;
  barrier.request.kind = Collective::kBarrier;
  CHECK(Operation(std::move(barrier), 2).negotiation_event() == "NEGOTIATE_BARRIER");
  Submission scattered;
  scattered.request.kind = Collective::kReduceScatter;
  CHECK(Operation(std::move(scattered), 3).negotiation_event() == "NEGOTIATE_REDUCESCATTER");
}

}  // namespace ronde
