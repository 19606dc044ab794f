#include "bindings/runtime/submission_preparer.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/base/log.h"
#include "tests/core/engine/sum_of.h"

namespace ronde {
namespace {

using test::sum_of;

/// Of a build without devices.
DeviceLibraries no_devices() {
  return {.accelerator = []() -> Result<std::shared_ptr<Accelerator>> {
    return Status(Code::kUnavailable, "built without CUDA");
  }};
}

/// A preparer with all that it needs, in a job of two ranks with this setting.
struct PreparerFixture {
  explicit PreparerFixture(const std::string& compression = "")
      : preparer(job_compression(compression).value(), sets, residuals, devices, 0) {}
  /// How a matrix of 100 rows comes out that names `compression`.
  std::string settled(std::int64_t columns, const std::string& compression) {
    Submission submission = sum_of("w", values);
    submission.request.tensors[0].shape = {100, columns};
    submission.request.compression = compression;
    const Status status = preparer.prepare(submission, kGlobalSet);
    return status.ok() ? submission.request.compression : status.message();
  }

  std::vector<float> values = std::vector<float>(4);
  ProcessSetTable sets{2};
  ResidualStore residuals;
  Devices devices{no_devices()};
  SubmissionPreparer preparer;
};

}  // namespace

TEST_CASE("SubmissionPreparer: wrong roots, counts and devices are refused") {
  PreparerFixture fixture;
  Submission good = sum_of("w", fixture.values);
  CHECK(fixture.preparer.prepare(good, kGlobalSet).ok());

  Submission root = sum_of("w", fixture.values);
  root.request.kind = Collective::kBroadcast;
  root.request.root = 5;
  const Status wrong_root = fixture.preparer.prepare(root, kGlobalSet);
  CHECK(wrong_root.code() == Code::kInvalidArgument);
  CHECK(wrong_root.message() ==
        "broadcast \"w\": root rank 5 is not in process set 0; allowed: 0, 1");
  root.request.name.clear();
  root.request.call_site = "train.py:7";
  CHECK(fixture.preparer.prepare(root, 9).message() ==
        "broadcast (train.py:7): there is no process set with id 9");

  Submission count = sum_of("w", fixture.values);
  count.outputs.clear();
  CHECK(fixture.preparer.prepare(count, kGlobalSet).message() ==
        "allreduce \"w\": 1 tensors were described, but 1 inputs and 0 outputs given");

  Submission device = sum_of("w", fixture.values);
  device.request.device = {DeviceKind::kCuda, 3};
  const Status no_device = fixture.preparer.prepare(device, kGlobalSet);
  CHECK(no_device.code() == Code::kUnsupported);
  CHECK(no_device.message() ==
        "allreduce \"w\": the tensor is on cuda:3, which cannot be used here: built without CUDA");
}

TEST_CASE("SubmissionPreparer: memory that cannot be used is refused, and the operation is named") {
  PreparerFixture fixture;
  Submission submission = sum_of("w", fixture.values);
  submission.inputs = {nullptr};
  const Status status = fixture.preparer.prepare(submission, kGlobalSet);
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.message() ==
        "allreduce \"w\": the input (shape [4], dtype float32) has a null address; it needs memory "
        "of 16 bytes");

  Submission elsewhere = sum_of("w", fixture.values);
  elsewhere.request.kind = Collective::kBroadcast;
  elsewhere.request.root = 1;
  elsewhere.inputs = {nullptr};
  CHECK(fixture.preparer.prepare(elsewhere, kGlobalSet).ok());
}

TEST_CASE("SubmissionPreparer: the first average of integers says that it is truncated") {
  std::vector<std::string> said;
  set_log(LogLevel::kWarning, [&](LogLevel, std::string_view line) { said.emplace_back(line); });
  PreparerFixture fixture;
  for (const DType dtype : {DType::kFloat32, DType::kBool, DType::kInt32, DType::kInt8}) {
    Submission mean = sum_of("count", fixture.values);
    mean.request.op = ReduceOp::kAverage;
    mean.request.tensors[0].dtype = dtype;
    mean.request.call_site = "train.py:10";
    CHECK(fixture.preparer.prepare(mean, kGlobalSet).ok());
  }
  set_log(LogLevel::kWarning, {});
  CHECK(said == std::vector<std::string>{
                    "allreduce \"count\" (train.py:10): the average of int32 is truncated towards "
                    "zero; pass op=Sum, or cast to a floating type (said once a process)"});
}

TEST_CASE("SubmissionPreparer: equal compressions are written alike, and wrong ones are errors") {
  PreparerFixture fixture;
  CHECK(fixture.settled(100, "") == "");
  CHECK(fixture.settled(100, "none") == "");
  CHECK(fixture.settled(100, "topk:ratio=0.10") == "topk:ratio=0.1");
  CHECK(fixture.settled(100, "int8:block=3").find("block=3; allowed") != std::string::npos);
  Submission integers = sum_of("i", fixture.values);
  integers.request.compression = "int8";
  integers.request.tensors[0].dtype = DType::kInt32;
  const Status status = fixture.preparer.prepare(integers, kGlobalSet);
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.message().starts_with("allreduce \"i\": compression of int32 is not defined"));
}

TEST_CASE("SubmissionPreparer: the job's compression is for large matrices that name none") {
  PreparerFixture fixture("int4");
  const std::string whole = job_compression("int4")->spec;
  CHECK(fixture.settled(100, "") == whole);
  CHECK(fixture.settled(10, "") == "");
  CHECK(fixture.settled(100, "none") == "");
  Submission vector = sum_of("bias", fixture.values);
  vector.request.tensors[0].shape = {1'000'000};
  CHECK(fixture.preparer.prepare(vector, kGlobalSet).ok());
  CHECK(vector.request.compression.empty());
}

TEST_CASE("SubmissionPreparer: a job's compression that does not parse is an error") {
  CHECK(job_compression("")->spec.empty());
  CHECK(job_compression("none")->spec.empty());
  const auto wrong = job_compression("int9");
  CHECK(wrong.status().code() == Code::kInvalidArgument);
  CHECK(wrong.status().message().find("'int9'") != std::string::npos);
}

}  // namespace ronde
