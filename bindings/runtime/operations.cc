#include "bindings/runtime/operations.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace ronde {
namespace {

/// Errors: kInvalidArgument where a message has bytes, but no memory.
Status check_message(std::string_view call, const void* data, std::size_t bytes) {
  if (data != nullptr || bytes == 0) return {};
  return {Code::kInvalidArgument,
          fmt::format("{}: {} bytes at a null address; give memory", call, bytes)};
}

}  // namespace

Result<OperationPtr> Operations::submit(SetId set, Submission submission) {
  RONDE_RETURN_IF_ERROR(state_.usable());
  RONDE_RETURN_IF_ERROR(preparer_.prepare(submission, set));
  if (injector_ != nullptr) injector_->before(submission);
  return engine_.submit(set, std::move(submission));
}

Status Operations::wait(const OperationPtr& operation, const WaitOptions& options) {
  if (operation->done()) return operation->status();
  RONDE_RETURN_IF_ERROR(state_.usable());
  const diagnosis::WaitingCallers::Note waiting(callers_);
  const bool message = operation->record().kind >= kCollectiveCount;
  const Timeline::WaitSpan span(timeline_, message ? kMessageWaitSpan : kWaitSpan);
  return engine_.wait(operation, options);
}

Result<OperationPtr> Operations::run(SetId set, Submission submission, const WaitOptions& options) {
  submission.caller_waits = true;
  RONDE_ASSIGN_OR_RETURN(OperationPtr operation, submit(set, std::move(submission)));
  RONDE_RETURN_IF_ERROR(wait(operation, options));
  return operation;
}

void Operations::declare_blocked(std::span<const OperationPtr> operations, BlockedFlag blocked) {
  if (state_.usable().ok()) engine_.declare_blocked(operations, std::move(blocked));
}

Status Operations::order_after(const OperationPtr& operation, DeviceStream stream) {
  const auto& completion = operation->completion();
  if (!completion) return {};
  const int index = operation->submission().request.device.index;
  RONDE_ASSIGN_OR_RETURN(const auto device, devices_.open(index));
  return device->wait(stream, *completion);
}

Status Operations::judge(const Operation& operation, std::string_view tensor,
                         std::string_view outcome) const {
  const bool asked = nonfinite_ != nullptr && operation.finding().exists();
  return asked ? nonfinite_->judge(operation, tensor, outcome) : Status();
}

Result<OperationPtr> Operations::join(SetId set, std::function<void(Operation&)> on_done) {
  RONDE_RETURN_IF_ERROR(state_.usable());
  Submission submission;
  submission.request.kind = Collective::kJoin;
  submission.on_done = std::move(on_done);
  return engine_.submit(set, std::move(submission));
}

Result<OperationPtr> Operations::send(int to, std::int64_t tag, std::span<const std::byte> data,
                                      const std::string& type) {
  RONDE_RETURN_IF_ERROR(state_.usable());
  if (to < 0 || to >= size()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("cannot send to rank {}; allowed: 0 to {}", to, size() - 1));
  }
  RONDE_RETURN_IF_ERROR(check_message("send", data.data(), data.size()));
  return engine_.send(to, tag, data, type);
}

Result<OperationPtr> Operations::recv(int from, std::int64_t tag, std::span<std::byte> data,
                                      Message* message, const std::string& type) {
  RONDE_RETURN_IF_ERROR(state_.usable());
  if (from != kAnySource && (from < 0 || from >= size())) {
    return Status(Code::kInvalidArgument,
                  fmt::format("cannot receive from rank {}; allowed: 0 to {}, or {} for any", from,
                              size() - 1, kAnySource));
  }
  RONDE_RETURN_IF_ERROR(check_message("recv", data.data(), data.size()));
  return engine_.recv(from, tag, data, message, type);
}

}  // namespace ronde
