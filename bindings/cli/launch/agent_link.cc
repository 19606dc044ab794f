#include "bindings/cli/launch/agent_link.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "bindings/cli/launch/messages.h"
#include "bindings/cli/launch/process.h"
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
  frames_.feed(std::string_view(before_greeting_).substr(end + 1));
  before_greeting_.clear();
  return {};
}

Status AgentLink::read(const OnFrame& on_frame) {
  std::string bytes;
  const ReadState state = read_some(out_.get(), bytes);
  if (state == ReadState::kEnd) {
    out_.reset();
    return {Code::kUnavailable, "the connection has ended"};
  }
  return feed(bytes, on_frame);
}

Status AgentLink::feed(std::string_view bytes, const OnFrame& on_frame) {
  if (greeted_) {
    frames_.feed(bytes);
  } else {
    before_greeting_ += bytes;
    RONDE_RETURN_IF_ERROR(take_greeting());
    if (greeted_ && !unsent_.empty()) send(std::exchange(unsent_, {}));
  }
  while (greeted_) {
    RONDE_ASSIGN_OR_RETURN(const std::optional<Frame> frame, frames_.next());
    if (!frame) break;
    on_frame(*frame);
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
  const auto listed =
      ranks.begin() + static_cast<std::ptrdiff_t>(all ? ranks.size() - 1 : kMostNamed / 2);
  const std::string last =
      all ? std::to_string(ranks.back()) : fmt::format("{} more", ranks.end() - listed);
  return fmt::format("ranks {} and {}", fmt::join(ranks.begin(), listed, ", "), last);
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

}  // namespace ronde
