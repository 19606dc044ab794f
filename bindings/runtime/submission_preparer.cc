#include "bindings/runtime/submission_preparer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>
#include <utility>
#include <vector>

#include "core/base/join_text.h"
#include "core/base/log.h"
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

/// True for allreduces of large floating matrices in host memory: no biases, no norms.
bool worth_compressing(const Request& request, std::int64_t fewest) {
  if (request.device.kind != DeviceKind::kCpu) return false;
  if (traits_of(request.kind).codecs != Codecs::kAny) return false;
  for (const TensorMeta& tensor : request.tensors) {
    if (tensor.shape.size() < 2 || element_count(tensor.shape) < fewest) return false;
    if (!check_compressible(request.kind, tensor.dtype, request.op).ok()) return false;
  }
  return !request.tensors.empty();
}

/// Errors: kInvalidArgument, kUnsupported for tensors or codecs that do not go together.
Status check_compression(const Request& request, const CompressionSpec& spec) {
  for (const TensorMeta& tensor : request.tensors) {
    RONDE_RETURN_IF_ERROR(check_compressible(request.kind, tensor.dtype, request.op));
  }
  RONDE_RETURN_IF_ERROR(check_codec(request.kind, spec));
  if (traits_of(request.kind).codecs == Codecs::kAny || request.device.kind == DeviceKind::kCpu) {
    return {};
  }
  return {Code::kUnsupported,
          fmt::format("compressed {} of tensors in device memory is not supported; allowed: host "
                      "memory",
                      to_string(request.kind))};
}

/// check_memory() of all tensors. One tensor, the usual number, needs no list.
Status check_all(const MemoryUse& use, const Submission& submission) {
  const auto memory_of = [&](std::size_t i) {
    const TensorMeta& tensor = submission.request.tensors[i];
    return TensorMemory{tensor.dtype, tensor.shape, submission.inputs[i], submission.outputs[i]};
  };
  const std::size_t count = submission.inputs.size();
  if (count == 1) return check_memory(use, std::array{memory_of(0)});
  std::vector<TensorMemory> tensors;
  tensors.reserve(count);
  for (std::size_t i = 0; i < count; ++i) tensors.push_back(memory_of(i));
  return check_memory(use, tensors);
}

bool is_integer(const TensorMeta& tensor) {
  return !is_floating(tensor.dtype) && tensor.dtype != DType::kBool;
}

/// True for averages of integers.
bool is_truncated(const Request& request) {
  return request.op == ReduceOp::kAverage && traits_of(request.kind).reduces &&
         std::any_of(request.tensors.begin(), request.tensors.end(), is_integer);
}

}  // namespace

Result<JobCompression> job_compression(const std::string& setting) {
  if (setting.empty() || setting == "none") return JobCompression{};
  RONDE_ASSIGN_OR_RETURN(const CompressionSpec spec, training_compression(setting));
  return JobCompression{to_string(spec), static_cast<std::int64_t>(fewest_elements(spec))};
}

Status SubmissionPreparer::prepare(Submission& submission, SetId set) const {
  const Status status = settle(submission, set);
  return status.ok() ? status : with_request(status, submission.request);
}

Status SubmissionPreparer::settle(Submission& submission, SetId set) const {
  RONDE_RETURN_IF_ERROR(check(submission, set));
  RONDE_RETURN_IF_ERROR(settle_compression(submission.request, set));
  if (is_truncated(submission.request)) warn_of_truncation(submission.request, set);
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
  RONDE_ASSIGN_OR_RETURN(const MemoryUse use, use_of(request, set));
  return check_all(use, submission);
}

/// Errors: kInvalidArgument where the root is not in the set.
Result<MemoryUse> SubmissionPreparer::use_of(const Request& request, SetId set) const {
  const bool has_chunks = traits_of(request.kind).output.layout == BufferLayout::kOwnChunk;
  if (request.root < 0 && !has_chunks) return MemoryUse{request.kind};
  RONDE_ASSIGN_OR_RETURN(const auto members, sets_.ranks(set));
  const auto place_of = [&](int rank) {
    return std::find(members.begin(), members.end(), rank) - members.begin();
  };
  if (request.root < 0 || place_of(request.root) < std::ssize(members)) {
    return MemoryUse{request.kind, static_cast<int>(members.size()),
                     static_cast<int>(place_of(rank_)), request.root < 0 || request.root == rank_};
  }
  RONDE_ASSIGN_OR_RETURN(const SetId number, sets_.number(set));
  return Status(Code::kInvalidArgument,
                fmt::format("root rank {} is not in process set {}; allowed: {}", request.root,
                            number, join_text(members, ", ")));
}

Status SubmissionPreparer::settle_compression(Request& request, SetId set) const {
  const bool named = !request.compression.empty();
  RONDE_ASSIGN_OR_RETURN(request.compression, canonical_compression(request.compression));
  if (!named && !compression_.spec.empty() &&
      worth_compressing(request, compression_.fewest_elements)) {
    request.compression = compression_.spec;
  }
  if (request.compression.empty()) return {};
  RONDE_ASSIGN_OR_RETURN(const CompressionSpec spec, parse_compression(request.compression));
  if (const std::uint64_t load = residuals_.loads(set); load > 0) {
    request.compression = since_load(spec, load);
  }
  return check_compression(request, spec);
}

/// Warns once a process: each step would warn.
void SubmissionPreparer::warn_of_truncation(const Request& request, SetId set) const {
  static std::atomic<bool> said{false};
  if (said.load(std::memory_order_relaxed)) return;
  const auto members = sets_.ranks(set);
  if (!members.ok() || members->size() == 1 || said.exchange(true)) return;
  const auto integer = std::find_if(request.tensors.begin(), request.tensors.end(), is_integer);
  log(LogLevel::kWarning,
      "{}: the average of {} is truncated towards zero; pass op=Sum, or cast to a floating type "
      "(said once a process)",
      described(request), to_string(integer->dtype));
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
