#include "bindings/cli/launch/relay.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "bindings/cli/launch/process.h"

namespace ronde {

void Relay::start(const StartAgentMessage& message) {
  auto in = make_pipe();
  auto out = make_pipe();
  if (!in.ok() || !out.ok()) return send_(encode(AgentEndMessage{message.agent, 0}));
  const StartedChild child = start_child({.command = message.command,
                                          .environment = {},
                                          .descriptors = {},
                                          .cpus = {},
                                          .death_signal = SIGTERM,
                                          .input = in->read.get(),
                                          .output = out->write.get()});
  if (child.pid < 0) return send_(encode(AgentEndMessage{message.agent, 0}));
  set_nonblocking(in->write.get());
  set_nonblocking(out->read.get());
  agents_.push_back(
      {message.agent, child.pid, std::move(in->write), std::move(out->read), {}, false});
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
