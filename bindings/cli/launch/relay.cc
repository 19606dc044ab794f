#include "bindings/cli/launch/relay.h"

#include <algorithm>
#include <utility>

#include "bindings/cli/launch/process.h"

namespace ronde {

void Relay::start(const StartAgentMessage& message) {
  auto child = start_piped_child(message.command);
  if (!child.ok()) return send_(encode(AgentEndMessage{message.agent, 0}));
  agents_.push_back(
      {message.agent, child->pid, std::move(child->in), std::move(child->out), {}, false});
}

void Relay::pass_on(const RelayMessage& message) {
  const auto agent = std::ranges::find(agents_, message.agent, &Agent::number);
  if (agent == agents_.end()) return;
  agent->to.push(message.bytes);
  agent->input_ends = agent->input_ends || message.bytes.empty();
  if (agent->input_ends && agent->to.empty()) agent->in.reset();
}

void Relay::watch(PollSet& set, bool output) {
  for (Agent& agent : agents_) {
    set.add(agent.to.empty() ? -1 : agent.in.get(), POLLOUT, [this, &agent] { write(agent); });
    set.add(output ? agent.out.get() : -1, POLLIN, [this, &agent] { read(agent); });
  }
}

void Relay::write(Agent& agent) {
  const bool taken = agent.to.write_some(agent.in.get());
  if (!taken || (agent.input_ends && agent.to.empty())) agent.in.reset();
}

void Relay::read(Agent& agent) {
  RelayMessage message{agent.number, {}};
  const ReadState state = read_some(agent.out.get(), message.bytes);
  if (state == ReadState::kData) send_(encode(message));
  if (state == ReadState::kEnd) agent.out.reset();
}

/// Passes on what the agent wrote last.
void Relay::on_child_end(pid_t pid, int wait_status) {
  const auto agent = std::ranges::find(agents_, pid, &Agent::pid);
  if (agent == agents_.end()) return;
  RelayMessage last{agent->number, {}};
  while (agent->out.valid() && read_some(agent->out.get(), last.bytes) == ReadState::kData) {
  }
  if (!last.bytes.empty()) send_(encode(last));
  send_(encode(AgentEndMessage{agent->number, wait_status}));
  agents_.erase(agent);
}

}  // namespace ronde
