#include "core/engine/peers/messages.h"

namespace ronde {

OperationPtr Messages::send(int to, std::int64_t tag, std::span<const std::byte> data,
                            const std::string& type) {
  auto operation = tasks_.make_message(kSendKind, data.size());
  tasks_.post([this, to, tag, data, operation, type] {
    matching_.send(to, tag, data, operation, type);
    flush();
  });
  return operation;
}

OperationPtr Messages::recv(int from, std::int64_t tag, std::span<std::byte> data, Message* message,
                            const std::string& type) {
  auto operation = tasks_.make_message(kRecvKind, data.size());
  tasks_.post([this, from, tag, data, message, operation, type] {
    matching_.recv(from, tag, data, message, operation, type);
    flush();
  });
  return operation;
}

Status Messages::on_frame(int from, std::span<const std::byte> payload) {
  const Status status = matching_.on_frame(from, payload);
  flush();
  return status;
}

void Messages::on_left(int rank, const Status& reason) {
  matching_.on_left(rank, reason);
  flush();
}

/// Sends frames and ends the operations that are done.
void Messages::flush() {
  if (!matching_.has_output()) return;
  matching_.take_frames(sender_.frames());
  sender_.send(EnginePart::kMessage, 0);
  finish_done();
}

void Messages::fail_all(const Status& reason) {
  matching_.fail_all(reason);
  finish_done();
}

void Messages::finish_done() {
  matching_.take_finished(done_);
  for (FinishedMessage& message : done_) tasks_.finish_message(*message.operation, message.status);
  if (!done_.empty()) tasks_.notify_callers();
  done_.clear();
}

}  // namespace ronde
