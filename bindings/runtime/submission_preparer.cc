#include "bindings/runtime/submission_preparer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/protocol/request.h"
#include "ops/compression/spec.h"

namespace ronde {
namespace {

/// The form in which all ranks write equal compressions; "none" becomes empty.
Result<std::string> canonical_compression(const std::string& text) {
  if (text.empty() || text == "none") return std::string();
  RONDE_ASSIGN_OR_RETURN(const CompressionSpec spec, parse_compression(text));
  return to_string(spec);
}

/// True for large floating matrices in host memory: no biases, no norms.
bool worth_compressing(const Request& request, std::int64_t fewest) {
  if (request.device.kind != DeviceKind::kCpu) return false;
  for (const TensorMeta& tensor : request.tensors) {
    if (tensor.shape.size() < 2 || element_count(tensor.shape) < fewest) return false;
    if (!check_compressible(request.kind, tensor.dtype, request.op).ok()) return false;
  }
  return !request.tensors.empty();
}

}  // namespace

Result<JobCompression> job_compression(const std::string& setting) {
  if (setting.empty() || setting == "none") return JobCompression{};
  RONDE_ASSIGN_OR_RETURN(const CompressionSpec spec, training_compression(setting));
  return JobCompression{to_string(spec), static_cast<std::int64_t>(fewest_elements(spec))};
}

SubmissionPreparer::SubmissionPreparer(JobCompression compression, const ProcessSetTable& sets,
                                       const ResidualStore& residuals, Devices& devices)
    : compression_(std::move(compression)), sets_(sets), residuals_(residuals), devices_(devices) {}

Status SubmissionPreparer::prepare(Submission& submission, SetId set) const {
  const Status status = settle(submission, set);
  return status.ok() ? status : with_request(status, submission.request);
}

Status SubmissionPreparer::settle(Submission& submission, SetId set) const {
  RONDE_RETURN_IF_ERROR(check(submission, set));
  RONDE_RETURN_IF_ERROR(settle_compression(submission.request, set));
  return prepare_device(submission, set);
}

Status SubmissionPreparer::check(const Submission& submission, SetId set) const {
  const Request& request = submission.request;
  RONDE_RETURN_IF_ERROR(validate(request));
  if (submission.inputs.size() != request.tensors.size() ||
      submission.outputs.size() != request.tensors.size()) {
    return {
        Code::kInvalidArgument,
        fmt::format("{} tensors were described, but {} inputs and {} outputs given",
                    request.tensors.size(), submission.inputs.size(), submission.outputs.size())};
  }
  if (request.root < 0) return {};
  RONDE_ASSIGN_OR_RETURN(const auto members, sets_.ranks(set));
  if (std::find(members.begin(), members.end(), request.root) != members.end()) return {};
  RONDE_ASSIGN_OR_RETURN(const SetId number, sets_.number(set));
  return {Code::kInvalidArgument, fmt::format("root rank {} is not in process set {}; allowed: {}",
                                              request.root, number, fmt::join(members, ", "))};
}

Status SubmissionPreparer::settle_compression(Request& request, SetId set) const {
  const bool named = !request.compression.empty();
  RONDE_ASSIGN_OR_RETURN(request.compression, canonical_compression(request.compression));
  if (!named && !compression_.spec.empty() &&
      worth_compressing(request, compression_.fewest_elements)) {
    request.compression = compression_.spec;
  }
  if (request.compression.empty()) return {};
  if (const std::uint64_t load = residuals_.loads(set); load > 0) {
    RONDE_ASSIGN_OR_RETURN(const CompressionSpec spec, parse_compression(request.compression));
    request.compression = since_load(spec, load);
  }
  for (const TensorMeta& tensor : request.tensors) {
    RONDE_RETURN_IF_ERROR(check_compressible(request.kind, tensor.dtype, request.op));
  }
  return {};
}

Status SubmissionPreparer::prepare_device(Submission& submission, SetId set) const {
  Request& request = submission.request;
  if (request.device.kind != DeviceKind::kCuda) return {};
  auto device = devices_.open(request.device.index);
  if (!device.ok()) {
    return {Code::kUnsupported,
            fmt::format("the tensor is on cuda:{}, which cannot be used here: {}",
                        request.device.index, device.status().message())};
  }
  if (!devices_.claim(set, request.device.index)) request.device.kind = kSeveralDevices;
  RONDE_ASSIGN_OR_RETURN(submission.ready, (*device)->record(submission.stream));
  if (!submission.allocate) {
    submission.device_memory = [device = *device](std::size_t bytes) {
      return device->allocate(MemoryKind::kDevice, bytes);
    };
  }
  return {};
}

}  // namespace ronde
