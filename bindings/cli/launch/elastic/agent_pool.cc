#include "bindings/cli/launch/elastic/agent_pool.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "bindings/cli/launch/process.h"
#include "bindings/cli/launch/ssh.h"

namespace ronde {
namespace {

/// The command looks the host up by itself, as a name service may take long to answer. With a
/// shell of the user's it does not: that may know hosts by names of its own.
std::vector<std::string> agent_command(const LaunchOptions& options, const std::string& host) {
  if (!options.ssh.shell.empty()) return ssh_command(options.ssh, host);
  std::vector<std::string> command = {options.program, "run-agent", host};
  for (std::string& word : ssh_command(options.ssh, host)) command.push_back(std::move(word));
  return command;
}

}  // namespace

AgentPool::Agent* AgentPool::find(const std::string& host) {
  const auto agent = std::ranges::find_if(
      agents_, [&](const Agent& each) { return each.host == host && !each.retired; });
  return agent == agents_.end() ? nullptr : &*agent;
}

void AgentPool::start(const std::string& host) {
  Agent& agent = agents_.emplace_back();
  agent.host = host;
  agent.start_deadline = now() + options_.start_timeout;
  const Status status = agent.link.start(agent_command(options_, host));
  if (!status.ok()) lose(agent, status.message());
}

void AgentPool::send(const std::string& host, const std::string& frame) {
  if (Agent* agent = find(host)) agent->link.send(frame);
}

void AgentPool::send_to_all(const std::string& frame) {
  for (Agent& agent : agents_) agent.link.send(frame);
}

void AgentPool::send_to_others(const std::string& host, const std::string& frame) {
  for (Agent& agent : agents_) {
    if (agent.host != host) agent.link.send(frame);
  }
}

void AgentPool::forget_ended() {
  std::erase_if(agents_, [](const Agent& agent) {
    if (!agent.retired || !agent.link.ended()) return false;
    if (agent.link.pid() > 0) ::waitpid(agent.link.pid(), nullptr, 0);
    return true;
  });
}

void AgentPool::watch(PollSet& set, bool read_output) {
  for (Agent& agent : agents_) {
    if (!read_output) agent.heartbeat.on_received(now());
    set.add(agent.link.wants_write() ? agent.link.input() : -1, POLLOUT,
            [&agent] { agent.link.write(); });
    set.add(read_output || agent.retired ? agent.link.output() : -1, POLLIN,
            [this, &agent] { read(agent); });
  }
}

void AgentPool::read(Agent& agent) {
  const Status status = agent.link.read([&](const AgentMessage& message) {
    if (!agent.retired) handlers_.on_message(agent.host, message);
  });
  if (agent.link.greeted() && std::exchange(agent.start_deadline, kForever) != kForever) {
    agent.heartbeat.start(now());
  }
  agent.heartbeat.on_received(now());
  if (!status.ok() && !agent.retired) lose(agent, end_of(agent, status));
}

/// How an agent ended. Its process is kept for forget_ended() to reap.
std::string AgentPool::end_of(const Agent& agent, const Status& status) const {
  siginfo_t info{};
  const bool known = agent.link.ended() && ::waitid(P_PID, static_cast<id_t>(agent.link.pid()),
                                                    &info, WEXITED | WNOWAIT) == 0;
  if (!known) return status.message();
  const bool killed = info.si_code != CLD_EXITED;
  const int wait_status = killed ? info.si_status : info.si_status << 8;
  return describe_agent_end(options_.ssh, agent.host, "its agent", wait_status);
}

/// Kills an agent that sends nonsense, or does not answer. Its workers end with it.
void AgentPool::lose(Agent& agent, const std::string& why) {
  agent.retired = true;
  agent.link.close_input();
  if (agent.link.pid() > 0 && !agent.link.ended()) ::kill(agent.link.pid(), SIGKILL);
  handlers_.on_lost(agent.host, why);
}

void AgentPool::on_time(TimePoint time) {
  give_up_silent(time);
  for (Agent& agent : agents_) {
    if (agent.retired || time < agent.start_deadline) continue;
    lose(agent, fmt::format("it did not answer within {} s (--start-timeout)",
                            static_cast<double>(options_.start_timeout.count()) / 1000));
  }
}

/// Agents on a host that is cut off end by themselves, with their workers.
void AgentPool::give_up_silent(TimePoint time) {
  for (Agent& agent : agents_) {
    if (agent.retired || !agent.heartbeat.due(time)) continue;
    agent.link.send(encode(PingMessage()));
    if (!agent.heartbeat.silent(time)) continue;
    lose(agent, fmt::format("nothing was heard of it for {} s", Heartbeat::kLimit.count()));
  }
}

TimePoint AgentPool::deadline() const noexcept {
  TimePoint next = kForever;
  for (const Agent& agent : agents_) {
    if (agent.retired) continue;
    next = std::min({next, agent.start_deadline, agent.heartbeat.deadline()});
  }
  return next;
}

void AgentPool::retire(const std::string& host) {
  Agent* agent = find(host);
  if (agent == nullptr) return;
  agent->retired = true;
  agent->link.close_input();
}

/// An agent that has not answered yet may be an ssh that waits for its host.
void AgentPool::retire_all() {
  for (Agent& agent : agents_) {
    agent.retired = true;
    agent.link.close_input();
    if (agent.link.pid() > 0 && !agent.link.greeted()) ::kill(agent.link.pid(), SIGKILL);
  }
}

void AgentPool::kill_all() {
  retire_all();
  for (const Agent& agent : agents_) {
    if (agent.link.pid() > 0) ::kill(agent.link.pid(), SIGKILL);
  }
}

std::vector<std::string> AgentPool::hosts() const {
  std::vector<std::string> names;
  for (const Agent& agent : agents_) {
    if (!agent.retired) names.push_back(agent.host);
  }
  return names;
}

}  // namespace ronde
