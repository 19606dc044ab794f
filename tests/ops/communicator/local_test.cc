#include "ops/communicator/local.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/support/plain_kernels.h"

namespace ronde::test {
namespace {

Segment segment_of(const std::vector<float>& in, std::vector<float>& out) {
  return {reinterpret_cast<const std::byte*>(in.data()), reinterpret_cast<std::byte*>(out.data()),
          in.size() * sizeof(float)};
}

Status run(Collective kind, const Segment& segment, const Scaling& scaling = {}) {
  Work work;
  work.kind = kind;
  work.reduction = {DType::kFloat32, ReduceOp::kSum, scaling};
  work.segments = {&segment, 1};
  return LocalCommunicator(plain_kernels()).run(work, kNoStream, AbortToken());
}

}  // namespace

TEST_CASE("local: every output is the input, scaled where the kind reduces") {
  const std::vector<float> in{1, 2, 3};
  std::vector<float> out(3);
  CHECK(run(Collective::kAllreduce, segment_of(in, out)).ok());
  CHECK(out == in);
  CHECK(run(Collective::kAllreduce, segment_of(in, out), {2.0, 0.25}).ok());
  CHECK(out == std::vector<float>{0.5F, 1, 1.5F});
  CHECK(run(Collective::kAllgather, segment_of(in, out), {2.0, 0.25}).ok());
  CHECK(out == in);
}

TEST_CASE("local: an input that is absent counts as zeros, and an output that is absent is not") {
  const std::vector<float> in{1, 2, 3};
  std::vector<float> out = in;
  Segment segment = segment_of(in, out);
  segment.in = nullptr;
  CHECK(run(Collective::kAllreduce, segment).ok());
  CHECK(out == std::vector<float>{0, 0, 0});
  segment = segment_of(in, out);
  segment.out = nullptr;
  CHECK(run(Collective::kAllreduce, segment).ok());
  CHECK(out == std::vector<float>{0, 0, 0});
}

TEST_CASE("local: it says that it can do all") {
  const LocalCommunicator local(plain_kernels());
  CHECK(local.traits().name == "self");
  CHECK(local.traits().supports.has(Collective::kBarrier, DType::kBool, ReduceOp::kBitXor));
}

}  // namespace ronde::test
