#include "core/protocol/request.h"

#include <doctest/doctest.h>

#include <functional>
#include <limits>

#include "tests/core/protocol/harness.h"
#include "tests/support/contains.h"

namespace ronde {
namespace {

/// The message that a request changed by `change` is refused with.
std::string refusal(Collective kind, const std::function<void(Request&)>& change) {
  Request request = request_for(kind, "w");
  CHECK(validate(request).ok());
  change(request);
  const Status status = validate(request);
  CHECK(status.code() == Code::kInvalidArgument);
  return status.message();
}

using test::contains;

}  // namespace

TEST_CASE("validate: a weight is for averages of floating types alone") {
  const auto with = [](ReduceOp op, DType dtype) {
    return refusal(Collective::kAllreduce, [&](Request& r) {
      r.op = op;
      r.tensors[0].dtype = dtype;
      r.weight = 2;
    });
  };
  CHECK(contains(with(ReduceOp::kSum, DType::kFloat32),
                 "a weight is allowed for allreduce by average only, not for op sum"));
  CHECK(contains(with(ReduceOp::kAverage, DType::kInt32),
                 "a weight is allowed for floating types only, not for int32"));
  CHECK(contains(with(ReduceOp::kAverage, DType::kBool), "not for bool"));
  CHECK(contains(with(ReduceOp::kAverage, static_cast<DType>(83)), "dtype 83 is unknown"));
}

TEST_CASE("validate: refuses what is not allowed, naming field, value and limit") {
  CHECK(contains(refusal(Collective::kAllreduce, [](Request& r) { r.name.assign(1025, 'x'); }),
                 "the name has 1025 bytes; at most 1024"));
  CHECK(contains(refusal(Collective::kAllreduce, [](Request& r) { r.kind = Collective::kJoin; }),
                 "collective 9"));
  CHECK(contains(
      refusal(Collective::kAllreduce, [](Request& r) { r.kind = static_cast<Collective>(200); }),
      "collective 200"));
  CHECK(contains(refusal(Collective::kAllreduce, [](Request& r) { r.tensors.clear(); }),
                 "no tensor"));
  CHECK(contains(refusal(Collective::kBarrier, [](Request& r) { r.tensors.resize(1); }),
                 "1 tensors given; a barrier has none"));
  CHECK(contains(
      refusal(Collective::kAlltoall, [](Request& r) { r.tensors.resize(2, r.tensors[0]); }),
      "exactly one"));
  CHECK(contains(refusal(Collective::kAllgather, [](Request& r) { r.tensors[0].shape = {}; }),
                 "no first dimension"));
  CHECK(contains(refusal(Collective::kAllreduce,
                         [](Request& r) {
                           r.tensors[0].shape = {2, -1};
                         }),
                 "shape [2, -1]"));
  CHECK(contains(refusal(Collective::kAllreduce,
                         [](Request& r) {
                           r.tensors[0].shape = {std::numeric_limits<std::int64_t>::max() / 2, 2};
                         }),
                 "too many elements"));
  CHECK(contains(refusal(Collective::kAllreduce,
                         [](Request& r) { r.tensors[0].dtype = static_cast<DType>(77); }),
                 "dtype 77"));
  CHECK(contains(
      refusal(Collective::kAllreduce, [](Request& r) { r.tensors[0].shape.assign(65, 1); }),
      "65 dimensions"));
}

TEST_CASE("validate: refuses operations, numbers and texts that are not allowed") {
  CHECK(contains(refusal(Collective::kReduce, [](Request& r) { r.op = ReduceOp::kBitAnd; }),
                 "not defined on dtype float32"));
  CHECK(contains(refusal(Collective::kReduceScatter, [](Request& r) { r.op = ReduceOp::kAdasum; }),
                 "op adasum is not defined for reduce_scatter; allowed is allreduce"));
  CHECK(contains(refusal(Collective::kAllreduce,
                         [](Request& r) {
                           r.op = ReduceOp::kAdasum;
                           r.tensors[0].dtype = DType::kInt32;
                         }),
                 "allowed are float16, bfloat16, float32 and float64"));
  CHECK(contains(
      refusal(Collective::kAllreduce, [](Request& r) { r.op = static_cast<ReduceOp>(99); }),
      "op 99"));
  CHECK(contains(refusal(Collective::kBroadcast, [](Request& r) { r.root = -1; }), "root -1"));
  CHECK(contains(refusal(Collective::kAllreduce,
                         [](Request& r) { r.prescale = std::numeric_limits<double>::infinity(); }),
                 "prescale inf"));
  CHECK(contains(refusal(Collective::kAllreduce,
                         [](Request& r) { r.device.kind = static_cast<DeviceKind>(9); }),
                 "device kind 9"));
  CHECK(contains(refusal(Collective::kAllreduce, [](Request& r) { r.call_site.assign(1025, 'x'); }),
                 "call_site has 1025 bytes"));
  CHECK(
      contains(refusal(Collective::kAllreduce, [](Request& r) { r.compression.assign(1025, 'x'); }),
               "compression has 1025 bytes"));
  CHECK(contains(refusal(Collective::kAllreduce, [](Request& r) { r.program.assign(1025, 'x'); }),
                 "program has 1025 bytes"));
  CHECK(contains(
      refusal(Collective::kAllreduce, [](Request& r) { r.tensors.resize(50'000, r.tensors[0]); }),
      "50000 tensors take"));
}

TEST_CASE("validate: allows empty tensors, single elements and the longest name") {
  Request request = allreduce(std::string(kMaxNameBytes, 'x'), {});
  CHECK(validate(request).ok());
  request.tensors[0].shape = {0, std::numeric_limits<std::int64_t>::max()};
  CHECK(validate(request).ok());
  request.tensors[0] = {DType::kBool, {3}};
  request.op = ReduceOp::kBitXor;
  CHECK(validate(request).ok());
}

TEST_CASE("described: operation, name and call site; a long name is cut between characters") {
  Request request = allreduce("w");
  request.call_site.clear();
  CHECK(described(request) == "allreduce \"w\"");
  request.call_site = "train.py:7";
  CHECK(described(request) == "allreduce \"w\" (train.py:7)");
  request.name = std::string(63, 'x') + "\u00e9" + std::string(9, 'y');
  CHECK(described(request) == "allreduce \"" + std::string(63, 'x') + "...\" (train.py:7)");
  request.name.clear();
  CHECK(described(request) == "allreduce (train.py:7)");
}

TEST_CASE("with_request: errors of the request alone name it") {
  const Request request = allreduce("w");
  CHECK(with_request({}, request).ok());
  CHECK(with_request({Code::kInvalidArgument, "wrong"}, request).message() ==
        "allreduce \"w\" (train.py:10): wrong");
  CHECK(with_request({Code::kRankFailure, "rank 1 died"}, request).message() == "rank 1 died");
}

}  // namespace ronde
