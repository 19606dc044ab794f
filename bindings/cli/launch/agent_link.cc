#include "bindings/cli/launch/agent_link.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <span>
#include <utility>

#include "bindings/cli/launch/process.h"
#include "bindings/cli/launch/ssh.h"
#include "core/base/join_text.h"
#include "core/base/os/interfaces.h"

namespace ronde {

Status AgentLink::start(const std::vector<std::string>& command) {
  RONDE_ASSIGN_OR_RETURN(PipedChild child, start_piped_child(command));
  pid_ = child.pid;
  in_ = std::move(child.in);
  out_ = std::move(child.out);
  return {};
}

/// Skips the output of a remote shell's start-up files, which precedes the greeting.
Status AgentLink::take_greeting() {
  const std::size_t at = before_greeting_.find(kAgentGreeting);
  const std::size_t end = at == std::string::npos ? at : before_greeting_.find('\n', at);
  if (end == std::string::npos) return {};
  const std::size_t version = at + kAgentGreeting.size();
  const std::string theirs = before_greeting_.substr(version, end - version);
  if (theirs != RONDE_VERSION) {
    return {
        Code::kVersionMismatch,
        fmt::format("has ronde {}, but {} starts the job with {}; install the same version on both",
                    theirs, host_name(), RONDE_VERSION)};
  }
  greeted_ = true;
  messages_.feed(std::string_view(before_greeting_).substr(end + 1));
  before_greeting_.clear();
  return {};
}

Status AgentLink::read(const OnMessage& take) {
  std::string bytes;
  const ReadState state = read_some(out_.get(), bytes);
  if (state == ReadState::kEnd) {
    out_.reset();
    return {Code::kUnavailable, "the connection has ended"};
  }
  return feed(bytes, take);
}

Status AgentLink::feed(std::string_view bytes, const OnMessage& take) {
  if (greeted_) {
    messages_.feed(bytes);
  } else {
    before_greeting_ += bytes;
    RONDE_RETURN_IF_ERROR(take_greeting());
    if (greeted_ && !unsent_.empty()) send(std::exchange(unsent_, {}));
  }
  while (greeted_) {
    RONDE_ASSIGN_OR_RETURN(const std::optional<AgentMessage> message, messages_.next());
    if (!message) break;
    take(*message);
  }
  return {};
}

void AgentLink::start_behind(AgentLink& parent, int number, std::vector<std::string> command) {
  parent_ = &parent;
  number_ = number;
  parent_->send(encode(StartAgentMessage{number, std::move(command)}));
}

void AgentLink::end(std::optional<int> wait_status) {
  ended_behind_ = true;
  wait_status_ = wait_status;
}

void AgentLink::send(std::string_view frame) {
  if (parent_ == nullptr) return to_.push(frame);
  if (!greeted_) {
    unsent_ += frame;
  } else if (!ended_behind_ && !frame.empty()) {
    parent_->send(encode(RelayMessage{number_, std::string(frame)}));
  }
}

void AgentLink::close_input() {
  in_.reset();
  if (parent_ != nullptr && !ended_behind_) parent_->send(encode(RelayMessage{number_, {}}));
}

std::optional<int> AgentLink::take_wait_status() {
  int status = 0;
  if (parent_ != nullptr) return std::exchange(wait_status_, std::nullopt);
  if (!ended() || pid_ <= 0 || ::waitpid(pid_, &status, 0) <= 0) return std::nullopt;
  return status;
}

namespace {

constexpr std::size_t kMostNamed = 8;

}  // namespace

std::string name_ranks(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  const bool all = ranks.size() <= kMostNamed;
  const std::size_t listed = all ? ranks.size() - 1 : kMostNamed / 2;
  const std::string last =
      all ? std::to_string(ranks.back()) : fmt::format("{} more", ranks.size() - listed);
  return fmt::format("ranks {} and {}", join_text(std::span(ranks).first(listed), ", "), last);
}

std::vector<Host> hosts_of(const std::vector<HostRanks>& all) {
  std::vector<Host> hosts(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    hosts[i].ranks = &all[i];
    for (int rank = 0; rank < all[i].ranks; ++rank) {
      hosts[i].unfinished.insert(all[i].first_rank + rank);
    }
  }
  return hosts;
}

void send_to_all(std::vector<Host>& hosts, const std::string& frame, const Host* but) {
  for (Host& host : hosts) {
    if (&host != but) host.link.send(frame);
  }
}

void reap_agents(const std::vector<Host>& hosts) {
  for (const Host& host : hosts) {
    if (host.link.pid() > 0) ::waitpid(host.link.pid(), nullptr, 0);
  }
}

std::string still_running(const std::vector<Host>& hosts) {
  std::vector<int> running;
  std::vector<int> ended;
  for (const Host& host : hosts) {
    for (int i = 0; i < host.ranks->ranks; ++i) {
      const int rank = host.ranks->first_rank + i;
      (host.unfinished.contains(rank) ? running : ended).push_back(rank);
    }
  }
  if (running.empty() || ended.empty()) return {};
  return fmt::format("{} {} ended, {} still {}", name_ranks(ended),
                     ended.size() == 1 ? "has" : "have", name_ranks(running),
                     running.size() == 1 ? "runs" : "run");
}

Host* host_of(std::vector<Host>& hosts, int rank) {
  const auto found = std::ranges::find_if(
      hosts, [rank](const Host& host) { return host.unfinished.contains(rank); });
  return found == hosts.end() ? nullptr : &*found;
}

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
  hooks_.say_if_verbose(fmt::format("{}: {}", host.name(), join_text(command, " ")));
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
        fmt::format("{}, from {}: {}", host.name(), parent.name(), join_text(command, " ")));
    host.link.start_behind(parent.link, static_cast<int>(&host - hosts_.data()), command);
  }
}

void AgentTree::read(Host& host) {
  const Status status = host.link.read([&](const AgentMessage& message) { take(host, message); });
  if (!status.ok()) lose(host, status);
}

void AgentTree::take(Host& host, const AgentMessage& message) {
  std::visit(Overloaded{[&](const RelayMessage& relayed) { on_relayed(relayed); },
                        [&](const AgentEndMessage& end) { on_end(end); },
                        [&](const auto& /*other*/) { hooks_.on_message(host, message); }},
             message);
}

void AgentTree::on_relayed(const RelayMessage& message) {
  if (message.agent < 0 || static_cast<std::size_t>(message.agent) >= hosts_.size()) return;
  Host& host = hosts_[static_cast<std::size_t>(message.agent)];
  if (host.link.ended()) return;
  const Status status =
      host.link.feed(message.bytes, [&](const AgentMessage& relayed) { take(host, relayed); });
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
