#include "bindings/cli/launch/rendezvous_probe.h"

#include <fmt/format.h>

#include "core/protocol/tree.h"

namespace ronde {

/// Names the hosts whose ranks connect to this one, and the one above it; for rank 0's all others.
ProbeMessage RendezvousProbe::probe_of(int host) const {
  const auto count = static_cast<int>(hosts_.size());
  ProbeMessage probe;
  const auto add = [&](int other) {
    probe.towards.push_back(hosts_[static_cast<std::size_t>(other)].ranks->name);
  };
  if (host == 0) {
    for (int other = 1; other < count; ++other) add(other);
  } else {
    for (const int below : leaders_below(host, count)) add(below);
    add(leader_above(host));
  }
  if (!probe.towards.empty()) probe.interface = options_.network_interface;
  return probe;
}

void RendezvousProbe::send() {
  waiting_ = options_.through_mpirun ? 1 : hosts_.size();
  answers_.resize(waiting_);
  for (std::size_t i = 0; i < waiting_; ++i) {
    hosts_[i].link.send(encode(probe_of(static_cast<int>(i))));
  }
}

Status RendezvousProbe::take(const Host& host, const Frame& frame) {
  const std::size_t index = index_of(host);
  if (index >= answers_.size() || answers_[index]) return {};
  const auto message = decode<ProbedMessage>(frame.payload);
  ProbedMessage answer = message.ok() ? *message : ProbedMessage{message.status().message(), {}};
  if (!answer.error.empty()) {
    if (index == 0) return {Code::kUnavailable, answer.error};
    say_if_verbose_(fmt::format("{}: {}: all ranks meet at rank 0", host.name(), answer.error));
  }
  answers_[index] = std::move(answer);
  --waiting_;
  return {};
}

bool RendezvousProbe::has_answer(const Host& host) const {
  const std::size_t index = index_of(host);
  return index < answers_.size() && answers_[index].has_value();
}

std::vector<Rendezvous> RendezvousProbe::places() const {
  std::vector<Rendezvous> places;
  for (const auto& answer : answers_) {
    if (!answer->error.empty()) return {places.front()};
    places.push_back({answer->address, answer->rendezvous_port, answer->master_port});
  }
  return places;
}

}  // namespace ronde
