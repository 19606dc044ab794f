#include "core/engine/peers/messages.h"

namespace ronde {

OperationPtr Messages::send(int to, std::int64_t tag, std::span<const std::byte> data) {
  auto operation = parts_.intake.make_message(kSendFlight, data.size());
  parts_.intake.post([this, to, tag, data, operation] {
    matching_.send(to, tag, data, operation);
    flush();
  });
  return operation;
}

OperationPtr Messages::recv(int from, std::int64_t tag, std::span<std::byte> data,
                            Message* message) {
  auto operation = parts_.intake.make_message(kRecvFlight, data.size());
  parts_.intake.post([this, from, tag, data, message, operation] {
    matching_.recv(from, tag, data, message, operation);
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
  matching_.take_frames(parts_.outbox.frames());
  parts_.outbox.send(EnginePart::kMessage, 0);
  finish_done();
}

void Messages::fail_all(const Status& reason) {
  matching_.fail_all(reason);
  finish_done();
}

void Messages::finish_done() {
  matching_.take_finished(done_);
  for (FinishedMessage& message : done_) {
    const TimePoint ended = now();
    const Code code = message.status.code();
    parts_.flights.end(message.operation->flight(), code, ended);
    parts_.meter.ended(ended_operation(*message.operation, code, ended));
    message.operation->finish(message.status);
  }
  if (!done_.empty()) parts_.role.notify_callers();
  done_.clear();
}

}  // namespace ronde
