#include "core/engine/peers/point_to_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

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

struct PointToPoint::Header {
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

void PointToPoint::emit(int to, const Header& header, std::span<const std::byte> data) {
  WireWriter writer(sizeof header + header.type.size() + data.size());
  writer(header);
  writer.raw(data);
  frames_.push_back({to, writer.take()});
}

void PointToPoint::send(int to, std::int64_t tag, std::span<const std::byte> data,
                        OperationPtr operation, std::string type) {
  const std::uint64_t id = next_id_++;
  if (to == rank_) {
    arrive({rank_, tag, id, data.size(), std::move(type), true, {data.begin(), data.end()}});
    finished_.push_back({std::move(operation), {}});
  } else if (data.size() <= eager_bytes_) {
    emit(to, {Part::kWhole, id, tag, data.size(), 0, std::move(type)}, data);
    finished_.push_back({std::move(operation), {}});
  } else {
    sending_.emplace(id, Send{to, data, std::move(operation)});
    emit(to, {Part::kAnnounce, id, tag, data.size(), 0, std::move(type)});
  }
}

void PointToPoint::recv(int from, std::int64_t tag, std::span<std::byte> data, Message* message,
                        OperationPtr operation, std::string type) {
  Receive receive{from, tag, data, message, std::move(operation), std::move(type)};
  const auto found = std::find_if(arrived_.begin(), arrived_.end(), [&](const Arrival& arrival) {
    return arrival.tag == tag && (from == kAnySource || arrival.from == from);
  });
  if (found == arrived_.end()) {
    posted_.push_back(std::move(receive));
    return;
  }
  Arrival arrival = std::move(*found);
  arrived_.erase(found);
  match(std::move(receive), arrival);
}

void PointToPoint::arrive(Arrival arrival) {
  const auto found = std::find_if(posted_.begin(), posted_.end(), [&](const Receive& receive) {
    return receive.tag == arrival.tag &&
           (receive.from == kAnySource || receive.from == arrival.from);
  });
  if (found == posted_.end()) {
    arrived_.push_back(std::move(arrival));
    return;
  }
  Receive receive = std::move(*found);
  posted_.erase(found);
  match(std::move(receive), arrival);
}

void PointToPoint::match(Receive receive, Arrival& arrival) {
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
Status PointToPoint::check_fit(const Receive& receive, const Arrival& arrival) {
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

void PointToPoint::finish_receive(Receive& receive, int source, Status status) {
  if (receive.message != nullptr) *receive.message = {source, receive.tag, receive.expected};
  finished_.push_back({std::move(receive.operation), std::move(status)});
}

void PointToPoint::ask(int from, std::uint64_t id, std::size_t offset) {
  emit(from, {Part::kAsk, id, 0, 0, offset, {}});
}

Status PointToPoint::on_frame(int from, std::span<const std::byte> payload) {
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

Status PointToPoint::on_ask(int from, const Header& header) {
  const auto found = sending_.find(header.id);
  if (found == sending_.end() || found->second.to != from) {
    return {Code::kInvalidArgument, "a message that was never announced is asked for"};
  }
  Send& send = found->second;
  if (header.offset >= send.data.size()) {
    finished_.push_back({std::move(send.operation), {}});
    sending_.erase(found);
    return {};
  }
  const std::size_t length = std::min(kChunkBytes, send.data.size() - header.offset);
  emit(from, {Part::kData, header.id, 0, length, header.offset, {}},
       send.data.subspan(header.offset, length));
  return {};
}

Status PointToPoint::on_data(int from, const Header& header, std::span<const std::byte> data) {
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

void PointToPoint::on_left(int rank, const Status& reason) {
  posted_.remove_if([&](Receive& receive) {
    if (receive.from != rank) return false;
    finished_.push_back({std::move(receive.operation), reason});
    return true;
  });
  std::erase_if(sending_, [&](auto& entry) {
    if (entry.second.to != rank) return false;
    finished_.push_back({std::move(entry.second.operation), reason});
    return true;
  });
  std::erase_if(receiving_, [&](auto& entry) {
    if (entry.first.first != rank) return false;
    finished_.push_back({std::move(entry.second.operation), reason});
    return true;
  });
}

void PointToPoint::fail_all(const Status& reason) {
  for (Receive& receive : posted_) finished_.push_back({std::move(receive.operation), reason});
  for (auto& [id, send] : sending_) finished_.push_back({std::move(send.operation), reason});
  for (auto& [key, receive] : receiving_) {
    finished_.push_back({std::move(receive.operation), reason});
  }
  posted_.clear();
  sending_.clear();
  receiving_.clear();
}

void PointToPoint::take_frames(std::vector<OutFrame>& out) {
  std::move(frames_.begin(), frames_.end(), std::back_inserter(out));
  frames_.clear();
}

void PointToPoint::take_finished(std::vector<FinishedMessage>& out) {
  std::move(finished_.begin(), finished_.end(), std::back_inserter(out));
  finished_.clear();
}

}  // namespace ronde
