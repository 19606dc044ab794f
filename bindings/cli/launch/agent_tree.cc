#include "bindings/cli/launch/agent_tree.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bindings/cli/launch/ssh.h"

namespace ronde {

int agent_parent(int host, int fan_out) {
  int first = 0;        // host of this level
  int width = fan_out;  // hosts of this level
  int parents = -1;     // first host of the level above
  while (host >= first + width) {
    parents = first;
    first += width;
    width *= fan_out;
  }
  return parents < 0 ? -1 : parents + (host - first) % (first - parents);
}

std::vector<std::string> AgentTree::command_for(const Host& host) const {
  if (host.ranks->name.empty()) return {options_.program, "run-agent"};
  return ssh_command(options_.ssh, host.ranks->name);
}

int AgentTree::parent_of(const Host& host) const {
  return agent_parent(static_cast<int>(&host - hosts_.data()), options_.agent_fan_out);
}

Status AgentTree::start_here(Host& host) {
  const std::vector<std::string> command = command_for(host);
  hooks_.say_if_verbose(fmt::format("{}: {}", host.name(), fmt::join(command, " ")));
  return host.link.start(command);
}

Status AgentTree::start() {
  for (Host& host : hosts_) {
    if (parent_of(host) < 0) RONDE_RETURN_IF_ERROR(start_here(host));
  }
  return {};
}

void AgentTree::start_further() {
  for (Host& host : hosts_) {
    if (host.link.started()) continue;
    Host& parent = hosts_[static_cast<std::size_t>(parent_of(host))];
    if (!parent.link.greeted() || parent.link.ended()) continue;
    const std::vector<std::string> command = command_for(host);
    hooks_.say_if_verbose(
        fmt::format("{}, from {}: {}", host.name(), parent.name(), fmt::join(command, " ")));
    host.link.start_behind(parent.link, static_cast<int>(&host - hosts_.data()), command);
  }
}

void AgentTree::read(Host& host) {
  const Status status = host.link.read([&](const Frame& frame) { take(host, frame); });
  if (!status.ok()) lose(host, status);
}

void AgentTree::take(Host& host, const Frame& frame) {
  const bool of_agents =
      with_message<RelayMessage>(frame, [&](const auto& message) { on_relayed(message); }) ||
      with_message<AgentEndMessage>(frame, [&](const auto& message) { on_end(message); });
  if (!of_agents) hooks_.on_frame(host, frame);
}

void AgentTree::on_relayed(const RelayMessage& message) {
  if (message.agent < 0 || static_cast<std::size_t>(message.agent) >= hosts_.size()) return;
  Host& host = hosts_[static_cast<std::size_t>(message.agent)];
  if (host.link.ended()) return;
  const Status status =
      host.link.feed(message.bytes, [&](const Frame& frame) { take(host, frame); });
  if (!status.ok()) lose(host, status);
}

/// A host that another one cannot reach by ssh may be reached from here.
void AgentTree::on_end(const AgentEndMessage& message) {
  if (message.agent < 0 || static_cast<std::size_t>(message.agent) >= hosts_.size()) return;
  Host& host = hosts_[static_cast<std::size_t>(message.agent)];
  if (host.link.ended()) return;
  if (host.link.greeted() || host.unfinished.empty()) {
    host.link.end(message.wait_status);
    return lose(host, Status(Code::kUnavailable, "the connection has ended"));
  }
  const Host& parent = hosts_[static_cast<std::size_t>(parent_of(host))];
  hooks_.say_if_verbose(
      fmt::format("{} cannot be reached from {}: trying from here", host.name(), parent.name()));
  host.link = AgentLink();
  const Status status = start_here(host);
  if (!status.ok()) lose(host, status);
}

/// Agents behind one that has ended are lost too.
void AgentTree::lose(Host& host, const Status& why) {
  hooks_.on_gone(host, why);
  if (!host.link.ended()) return;
  for (Host& other : hosts_) {
    if (!other.link.is_behind(host.link) || other.link.ended()) continue;
    other.link.end(std::nullopt);
    lose(other, Status(Code::kUnavailable,
                       fmt::format("it was reached through {}, which is gone", host.name())));
  }
}

}  // namespace ronde
