#include "bindings/cli/launch/rendezvous_probe.h"

#include <fmt/format.h>

#include <utility>

#include "core/protocol/tree.h"

namespace ronde {

/// Names the hosts whose ranks connect to this one, and the one above it; for rank 0's all others.
ProbeMessage RendezvousProbe::question(std::size_t host) const {
  const auto number = static_cast<int>(host);
  const auto count = static_cast<int>(args_.hosts.size());
  ProbeMessage probe;
  const auto add = [&](int other) {
    probe.towards.push_back(args_.hosts[static_cast<std::size_t>(other)]);
  };
  if (number == 0) {
    for (int other = 1; other < count; ++other) add(other);
  } else {
    for (const int below : leaders_below(number, count)) add(below);
    add(leader_above(number));
  }
  if (!probe.towards.empty()) probe.interface = args_.interface;
  return probe;
}

Status RendezvousProbe::take(std::size_t host, ProbedMessage answer) {
  if (host >= asked() || answers_[host]) return {};
  if (!answer.error.empty()) {
    if (host == 0) return {Code::kUnavailable, answer.error};
    args_.say_if_verbose(
        fmt::format("{}: {}: all ranks meet at rank 0", args_.hosts[host], answer.error));
  }
  answers_[host] = std::move(answer);
  ++answered_;
  return {};
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
