#include "core/engine/peers/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/base/clock.h"
#include "core/base/wire_codec.h"

namespace ronde {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{512} << 10;

enum class Part : std::uint32_t {
  kWhole = 1,     // the whole message
  kAnnounce = 2,  // a long message waits at the sender
  kAsk = 3,       // the receiver wants the chunk at `offset`; offset == bytes: it has all
  kData = 4,      // a chunk
};

}  // namespace

struct Messages::Header {
  Part part = Part::kWhole;
  std::uint64_t id = 0;
  std::int64_t tag = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
  std::string type;

  static void fields(auto& wire, auto& self) {
    wire(self.part, self.id, self.tag, self.bytes, self.offset, self.type);
  }
};

void Messages::emit(int to, const Header& header, std::span<const std::byte> data) {
  WireWriter writer(sizeof header + header.type.size() + data.size());
  writer(header);
  writer.raw(data);
  sender_.add(to, writer.take());
}

OperationPtr Messages::send(int to, std::int64_t tag, std::span<const std::byte> data,
                            const std::string& type) {
  auto operation = tasks_.make_message(kSendKind, data.size());
  tasks_.post([this, to, tag, data, operation, type] {
    start(Send{to, data, operation}, tag, type);
    flush();
  });
  return operation;
}

OperationPtr Messages::recv(int from, std::int64_t tag, std::span<std::byte> data, Message* message,
                            const std::string& type) {
  auto operation = tasks_.make_message(kRecvKind, data.size());
  tasks_.post([this, from, tag, data, message, operation, type] {
    start(Receive{from, tag, data, message, operation, type});
    flush();
  });
  return operation;
}

void Messages::start(Send send, std::int64_t tag, const std::string& type) {
  const std::uint64_t id = next_id_++;
  const auto& [to, data, operation] = send;
  const int self = sender_.topology().rank;
  if (to == self) {
    arrive({self, tag, id, data.size(), type, true, {data.begin(), data.end()}});
    ended_.push_back({operation, {}, to});
  } else if (data.size() <= eager_bytes_) {
    emit(to, {Part::kWhole, id, tag, data.size(), 0, type}, data);
    ended_.push_back({operation, {}, to});
  } else {
    emit(to, {Part::kAnnounce, id, tag, data.size(), 0, type});
    sending_.emplace(id, std::move(send));
  }
}

void Messages::start(Receive receive) {
  const auto found = std::find_if(arrived_.begin(), arrived_.end(),
                                  [&](const Arrival& arrival) { return takes(receive, arrival); });
  if (found == arrived_.end()) {
    Status gone = why_gone(receive.from);
    if (gone.ok()) return posted_.push_back(std::move(receive));
    ended_.push_back({std::move(receive.operation), std::move(gone)});
    return;
  }
  Arrival arrival = std::move(*found);
  arrived_.erase(found);
  match(std::move(receive), arrival);
}

/// An error where `from`, or with kAnySource each other rank, has left.
Status Messages::why_gone(int from) const {
  if (from == kAnySource) {
    const bool all = left_.size() + 1 == static_cast<std::size_t>(sender_.topology().size());
    return all && !left_.empty() ? left_.begin()->second : Status();
  }
  const auto found = left_.find(from);
  return found == left_.end() ? Status() : found->second;
}

void Messages::arrive(Arrival arrival) {
  const auto found = std::find_if(posted_.begin(), posted_.end(),
                                  [&](const Receive& receive) { return takes(receive, arrival); });
  if (found == posted_.end()) return arrived_.push_back(std::move(arrival));
  Receive receive = std::move(*found);
  posted_.erase(found);
  match(std::move(receive), arrival);
}

void Messages::match(Receive receive, Arrival& arrival) {
  receive.expected = arrival.bytes;
  if (Status status = check_fit(receive, arrival); !status.ok()) {
    if (!arrival.complete) ask(arrival.from, arrival.id, arrival.bytes);  // lets the sender go
    finish_receive(receive, arrival.from, std::move(status));
  } else if (arrival.complete) {
    if (arrival.bytes != 0) {
      std::memcpy(receive.data.data(), arrival.data.data(), arrival.bytes);
    }
    finish_receive(receive, arrival.from);
  } else {
    receiving_.emplace(std::pair(arrival.from, arrival.id), std::move(receive));
    ask(arrival.from, arrival.id, 0);
  }
}

/// An error where the message cannot be what the receive is for.
Status Messages::check_fit(const Receive& receive, const Arrival& arrival) {
  if (arrival.bytes > receive.data.size()) {
    return {Code::kInvalidArgument,
            fmt::format("the message of rank {} with tag {} has {} bytes, but the receive buffer "
                        "only {}",
                        arrival.from, receive.tag, arrival.bytes, receive.data.size())};
  }
  if (!arrival.type.empty() && !receive.type.empty() && arrival.type != receive.type) {
    return {Code::kMismatch,
            fmt::format("recv: rank {} sent elements of type {}, but the memory to receive into is "
                        "of {}; give both ranks the same type",
                        arrival.from, arrival.type, receive.type)};
  }
  return {};
}

void Messages::finish_receive(Receive& receive, int source, Status status) {
  if (receive.message != nullptr) *receive.message = {source, receive.tag, receive.expected};
  ended_.push_back({std::move(receive.operation), std::move(status), source});
}

void Messages::ask(int from, std::uint64_t id, std::size_t offset) {
  emit(from, {Part::kAsk, id, 0, 0, offset, {}});
}

Status Messages::on_frame(int from, std::span<const std::byte> payload) {
  const Status status = take_frame(from, payload);
  flush();
  return status;
}

Status Messages::take_frame(int from, std::span<const std::byte> payload) {
  WireReader reader(payload, "message frame");
  Header header;
  reader(header);
  const auto data = reader.rest();
  RONDE_RETURN_IF_ERROR(reader.finish());
  switch (header.part) {
    case Part::kWhole:
      arrive({from,
              header.tag,
              header.id,
              data.size(),
              std::move(header.type),
              true,
              {data.begin(), data.end()}});
      return {};
    case Part::kAnnounce:
      arrive({from, header.tag, header.id, header.bytes, std::move(header.type), false, {}});
      return {};
    case Part::kAsk:
      return on_ask(from, header);
    case Part::kData:
      return on_data(from, header, data);
  }
  return {Code::kInvalidArgument, "a message frame is of no known kind"};
}

Status Messages::on_ask(int from, const Header& header) {
  const auto found = sending_.find(header.id);
  if (found == sending_.end() || found->second.to != from) {
    return {Code::kInvalidArgument, "a message that was never announced is asked for"};
  }
  Send& send = found->second;
  if (header.offset >= send.data.size()) {
    ended_.push_back({std::move(send.operation), {}, from});
    sending_.erase(found);
    return {};
  }
  const std::size_t length = std::min(kChunkBytes, send.data.size() - header.offset);
  emit(from, {Part::kData, header.id, 0, length, header.offset, {}},
       send.data.subspan(header.offset, length));
  return {};
}

Status Messages::on_data(int from, const Header& header, std::span<const std::byte> data) {
  const auto found = receiving_.find({from, header.id});
  if (found == receiving_.end() || header.offset != found->second.received ||
      data.size() > found->second.expected - found->second.received || data.empty()) {
    return {Code::kInvalidArgument, "a chunk of a message does not fit"};
  }
  Receive& receive = found->second;
  std::memcpy(receive.data.data() + header.offset, data.data(), data.size());
  receive.received += data.size();
  ask(from, header.id, receive.received);
  if (receive.received == receive.expected) {
    finish_receive(receive, from);
    receiving_.erase(found);
  }
  return {};
}

void Messages::on_left(int rank, const Status& reason) {
  left_.emplace(rank, reason);
  arrived_.remove_if(
      [&](const Arrival& arrival) { return arrival.from == rank && !arrival.complete; });
  posted_.remove_if([&](Receive& receive) {
    if (why_gone(receive.from).ok()) return false;
    ended_.push_back({std::move(receive.operation), reason});
    return true;
  });
  std::erase_if(sending_, [&](auto& entry) {
    if (entry.second.to != rank) return false;
    ended_.push_back({std::move(entry.second.operation), reason});
    return true;
  });
  std::erase_if(receiving_, [&](auto& entry) {
    if (entry.first.first != rank) return false;
    ended_.push_back({std::move(entry.second.operation), reason});
    return true;
  });
  flush();
}

void Messages::fail_all(const Status& reason) {
  for (Receive& receive : posted_) ended_.push_back({std::move(receive.operation), reason});
  for (auto& [id, send] : sending_) ended_.push_back({std::move(send.operation), reason});
  for (auto& [key, receive] : receiving_) {
    ended_.push_back({std::move(receive.operation), reason});
  }
  posted_.clear();
  sending_.clear();
  receiving_.clear();
  flush();
}

void Messages::flush() {
  sender_.send(EnginePart::kMessage, 0);
  for (const Ended& each : ended_) {
    record(each);
    tasks_.finish_message(*each.operation, each.status);
  }
  if (!ended_.empty()) tasks_.notify_callers();
  ended_.clear();
}

void Messages::record(const Ended& message) {
  EventSink* const events = events_ != nullptr ? events_->get() : nullptr;
  if (events == nullptr || message.peer < 0 || !message.status.ok()) return;
  const RecordTicket facts = message.operation->record();
  const bool sends = facts.kind == kSendKind;
  const std::string track = fmt::format("{}{}", sends ? kSendTrack : kRecvTrack, message.peer);
  std::int64_t& last_ns = recorded_[track];
  const std::int64_t start_ns = std::max(facts.submitted_ns, last_ns);
  last_ns = std::max(start_ns, to_ns(now()));
  events->span(track, sends ? "SEND" : "RECV", {start_ns, last_ns}, {.bytes = facts.bytes});
}

}  // namespace ronde
