// One turn of the driving thread: tasks in, frames in, frames out, agreed work run.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/log.h"
#include "core/engine/engine.h"
#include "core/engine/failure_frame.h"

namespace ronde {

bool Engine::step() {
  bool progressed = intake_.run();
  progressed |= channel_.poll(*this);
  if (next_deadline_ != kForever) {
    const TimePoint time = now();
    if (time >= next_deadline_) {
      come_due(time);
      progressed = true;
    }
  }
  if (!progressed) return false;
  flush();
  run_agreed();
  return true;
}

void Engine::come_due(TimePoint time) {
  for (const QueuePtr& queue : driven_queues_) queue->on_time(time);
}

void Engine::flush() {
  std::vector<std::string> warnings;
  send_negotiations();
  for (const QueuePtr& queue : driven_queues_) queue->take_warnings(warnings);
  look_for_deadlines();
  if (messages_.has_output()) {
    messages_.take_frames(out_);
    send_frames(EnginePart::kMessage, 0);
    finish_messages();
  }
  for (const std::string& warning : warnings) log(LogLevel::kWarning, "{}", warning);
  if (!warnings.empty() && options_.on_stall) options_.on_stall();
}

void Engine::look_for_deadlines() {
  next_deadline_ = kForever;
  for (const QueuePtr& queue : driven_queues_) {
    next_deadline_ = std::min(next_deadline_, queue->next_deadline());
  }
}

void Engine::send_negotiations() {
  for (const QueuePtr& queue : driven_queues_) {
    queue->take_frames(out_);
    if (!out_.empty())
      send_frames(EnginePart::kNegotiation, static_cast<std::uint64_t>(queue->id()));
  }
}

void Engine::send_frames(EnginePart kind, std::uint64_t id) {
  FrameHeader header;
  header.kind = kind;
  header.id = id;
  for (const OutFrame& out : out_) {
    const Status status = channel_.send(out.to, make_frame(frame_, header, out.bytes));
    // Who is lost or has left is told of by the channel itself.
    if (!status.ok() && status.code() != Code::kRankFailure) fail(status);
  }
  out_.clear();
}

void Engine::run_agreed() {
  if (!collect_agreed()) return;
  send_negotiations();  // what was let go
  // Peers must know of the whole agreement before this thread may be busy with it.
  const bool told = channel_.kick();
  for (const QueuePtr& queue : driven_queues_)
    queue->run_agreed(may_run_here_ && told && alone(*queue));
}

bool Engine::collect_agreed() {
  bool any = false;
  do {
    launch_ordered_ = false;
    for (const QueuePtr& queue : driven_queues_) any |= queue->collect_agreed();
  } while (launch_ordered_);
  end_launches();
  return any;
}

bool Engine::alone(const SetQueue& queue) const {
  return std::all_of(driven_queues_.begin(), driven_queues_.end(), [&](const QueuePtr& other) {
    return other.get() == &queue || other->outstanding() == 0;
  });
}

void Engine::finish_messages() {
  messages_.take_finished(ended_);
  for (FinishedMessage& message : ended_) {
    const TimePoint ended = now();
    const Code code = message.status.code();
    flights_->end(message.operation->flight(), code, ended);
    meter_.ended(ended_operation(*message.operation, code, ended));
    message.operation->finish(message.status);
  }
  if (!ended_.empty()) role_.notify_callers();
  ended_.clear();
}

void Engine::on_frame(int from, std::span<const std::byte> frame) {
  const Status status = route(from, frame);
  if (status.ok()) return;
  fail(Status(Code::kInternal,
              fmt::format("rank {} sent a frame that makes no sense: {}", from, status.message())));
}

Status Engine::route(int from, std::span<const std::byte> frame) {
  const auto header = read_header(frame);
  if (!header) return {Code::kInvalidArgument, "unknown frame kind"};
  const auto payload = frame.subspan(sizeof(FrameHeader));
  switch (header->kind) {
    case EnginePart::kNegotiation:
      return route_negotiation(from, static_cast<SetId>(header->id), payload);
    case EnginePart::kExchange:
      RONDE_RETURN_IF_ERROR(exchange_.on_frame(from, header->id, payload));
      role_.notify_callers();
      return {};
    case EnginePart::kMessage:
      return messages_.on_frame(from, payload);
    case EnginePart::kClock:
      if (!options_.on_clock) return {};
      if (auto answer = options_.on_clock(payload)) {
        out_.push_back({from, std::move(*answer)});
        send_frames(EnginePart::kClock, 0);
      }
      return {};
    case EnginePart::kLaunch:
      order_launch(from, static_cast<SetId>(header->id));
      return {};
    case EnginePart::kFailure: {
      Status failure;
      RONDE_RETURN_IF_ERROR(read_failure(payload, failure));
      failure_told_ = true;  // whoever met it tells everyone
      fail_in_driver(failure);
      return {};
    }
  }
  return {};
}

Status Engine::route_negotiation(int from, SetId id, std::span<const std::byte> payload) {
  for (const QueuePtr& queue : driven_queues_) {
    if (queue->id() == id) return queue->on_frame(from, payload, now());
  }
  // The sender has added the set before this rank has, or sent before it knew of the removal.
  if (!removed_.contains(id)) {
    early_frames_[id].emplace_back(from, std::vector<std::byte>(payload.begin(), payload.end()));
  }
  return {};
}

void Engine::on_peer_lost(int, const Status& reason) { fail_in_driver(reason); }

void Engine::on_peer_left(int rank, const Status& reason) {
  {
    MutexLock lock(left_mutex_);
    left_.emplace(rank, reason);
  }
  messages_.on_left(rank, reason);
  role_.notify_callers();
}

}  // namespace ronde
