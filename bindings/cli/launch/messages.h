// The messages between launcher and agents. The agent's greeting says its version before the first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "bindings/exit_log/exit_log.h"
#include "core/base/status.h"
#include "core/base/wire_codec.h"

namespace ronde {

/// The first line of an agent, followed by its version and a newline. What a remote shell prints
/// before it is skipped.
inline constexpr std::string_view kAgentGreeting = "RONDE-AGENT ";

/// "NAME=value", as in execve.
using EnvironmentList = std::vector<std::string>;

/// Asks a host for an address that others can connect to.
struct ProbeMessage {
  std::string interface;  ///< Name or address; empty: the address ssh came to, or `towards`.
  std::vector<std::string> towards;  ///< Names of the other hosts; empty where there are none.

  static void fields(auto& wire, auto& self) { wire(self.interface, self.towards); }
};

/// The answer; `error` says why not.
struct ProbedMessage {
  std::string error;
  std::string address;
  int rendezvous_port = 0;
  int master_port = 0;

  static void fields(auto& wire, auto& self) {
    wire(self.error, self.address, self.rendezvous_port, self.master_port);
  }
};

/// Asks a host to let others connect for a while, at an address as for ProbeMessage.
struct ListenMessage {
  int trial = 0;  ///< The answer has the same number.
  std::string interface;
  std::vector<std::string> towards;

  static void fields(auto& wire, auto& self) { wire(self.trial, self.interface, self.towards); }
};

/// The answer. `place`: "10.0.0.1:4000"; empty where the host cannot listen.
struct ListeningMessage {
  int trial = 0;
  std::string place;

  static void fields(auto& wire, auto& self) { wire(self.trial, self.place); }
};

/// Asks a host if it can connect to these places.
struct ReachMessage {
  int trial = 0;
  std::vector<std::string> places;

  static void fields(auto& wire, auto& self) { wire(self.trial, self.places); }
};

/// The answer: the places to which it cannot, each with the reason.
struct ReachedMessage {
  int trial = 0;
  std::vector<std::string> missed;

  static void fields(auto& wire, auto& self) { wire(self.trial, self.missed); }
};

/// One rank to start. A worker of an elastic job counts as rank here: its number less one.
struct RankStart {
  int rank = 0;
  EnvironmentList environment;

  static void fields(auto& wire, auto& self) { wire(self.rank, self.environment); }
};

/// Options of `ronde run` that agents obey.
struct AgentOptions {
  int stdin_rank = -1;  ///< This rank gets the launcher's standard input; -1: none does.

  static void fields(auto& wire, auto& self) { wire(self.stdin_rank); }
};

/// Everything an agent needs to start its ranks. The workers of an elastic job follow one by one.
struct StartMessage {
  std::string directory;
  std::vector<std::string> command;
  std::string secret;           ///< Handed to each rank by a descriptor; never by its environment.
  EnvironmentList environment;  ///< Added to the agent's own, for all its ranks.
  std::vector<RankStart> ranks;
  bool elastic = false;
  int slots = 0;           ///< Of an elastic job: workers that share the host's cores.
  int freeze_seconds = 0;  ///< A worker that is stopped for longer is reported; 0: none is.
  AgentOptions options = {};

  static void fields(auto& wire, auto& self) {
    wire(self.directory, self.command, self.secret, self.environment, self.ranks, self.elastic,
         self.slots, self.freeze_seconds, self.options);
  }
};

/// A piece of a rank's output; stream 1 or 2.
struct OutputMessage {
  int rank = 0;
  int stream = 1;
  std::string bytes;

  static void fields(auto& wire, auto& self) { wire(self.rank, self.stream, self.bytes); }
};

/// A piece of standard input for AgentOptions::stdin_rank. Empty: its end.
struct InputMessage {
  std::string bytes;

  static void fields(auto& wire, auto& self) { wire(self.bytes); }
};

/// A message has so many bytes of a call or an answer at most.
inline constexpr std::size_t kCallPieceBytes = std::size_t{1} << 20;

/// A piece of what ronde.run() calls, for all ranks. Comes before StartMessage.
struct CallMessage {
  std::string bytes;

  static void fields(auto& wire, auto& self) { wire(self.bytes); }
};

/// A piece of a rank's answer to the call. Empty: its end.
struct AnswerMessage {
  int rank = 0;
  std::string bytes;

  static void fields(auto& wire, auto& self) { wire(self.rank, self.bytes); }
};

/// A rank began.
struct StartedMessage {
  int rank = 0;
  int pid = 0;
  std::int64_t copy_step = -1;  ///< As for ExitedMessage: of the copies that it was given.

  static void fields(auto& wire, auto& self) { wire(self.rank, self.pid, self.copy_step); }
};

/// A rank ended.
struct ExitedMessage {
  int rank = 0;
  int pid = 0;
  int wait_status = 0;
  bool joined = false;          ///< Some rank of its host has joined a job by then.
  std::int64_t copy_step = -1;  ///< The step of its copies of an elastic job's state; -1: none.

  static void fields(auto& wire, auto& self) {
    wire(self.rank, self.pid, self.wait_status, self.joined, self.copy_step);
  }
};

/// A command that could not be run at all; `exit_status` is 126 or 127 as in a shell.
struct CannotStartMessage {
  int rank = 0;
  int exit_status = 127;
  std::string text;

  static void fields(auto& wire, auto& self) { wire(self.rank, self.exit_status, self.text); }
};

/// A worker of an elastic job has been stopped for so long, by SIGSTOP or a debugger.
struct FrozenMessage {
  int rank = 0;
  int seconds = 0;

  static void fields(auto& wire, auto& self) { wire(self.rank, self.seconds); }
};

/// Others have lost this rank: its end is to be reported as soon as it is certain.
struct SuspectMessage {
  int rank = 0;

  static void fields(auto& wire, auto& self) { wire(self.rank); }
};

/// Asks an agent to send a signal to its ranks.
struct SignalMessage {
  static constexpr int kAllRanks = -1;

  int signal = 0;
  int rank = kAllRanks;

  static void fields(auto& wire, auto& self) { wire(self.signal, self.rank); }
};

/// Asks an agent to start another one, which has this number.
struct StartAgentMessage {
  int agent = 0;
  std::vector<std::string> command;

  static void fields(auto& wire, auto& self) { wire(self.agent, self.command); }
};

/// Bytes from or to an agent that another one has started. None, to it: its input ends.
struct RelayMessage {
  int agent = 0;
  std::string bytes;

  static void fields(auto& wire, auto& self) { wire(self.agent, self.bytes); }
};

/// An agent that another one has started ended, or could not be started: status 0.
struct AgentEndMessage {
  int agent = 0;
  int wait_status = 0;

  static void fields(auto& wire, auto& self) { wire(self.agent, self.wait_status); }
};

/// A note from or to a worker: core/elastic/notes.h.
struct NoteMessage {
  int rank = 0;
  std::string bytes;

  static void fields(auto& wire, auto& self) { wire(self.rank, self.bytes); }
};

/// A sign of life, both ways, in elastic jobs.
struct PingMessage {
  static void fields(auto& /*wire*/, auto& /*self*/) {}
};

/// All messages. The number of a frame's kind is the place of its message here.
using AgentMessage = std::variant<
    // From the launcher to agents.
    ProbeMessage, StartMessage, RankStart, StartAgentMessage, SignalMessage, InputMessage,
    CallMessage, ListenMessage, ReachMessage, SuspectMessage,
    // From agents to the launcher.
    ProbedMessage, StartedMessage, OutputMessage, AnswerMessage, ExitedMessage, CannotStartMessage,
    FrozenMessage, AgentEndMessage, ListeningMessage, ReachedMessage,
    // Both ways. The launcher sends the ends of ranks on to the other agents.
    ProcessExit, NoteMessage, RelayMessage, PingMessage>;

/// A visitor of AgentMessage, made of one function for each message that matters.
template <typename... Function>
struct Overloaded : Function... {
  using Function::operator()...;
};
template <typename... Function>
Overloaded(Function...) -> Overloaded<Function...>;

inline constexpr std::size_t kFrameHeaderBytes = 5;
inline constexpr std::size_t kMaxAgentFrameBytes = std::size_t{64} << 20;

/// A message as the bytes of a frame: its kind, and the message as a text of the wire codec.
template <typename T>
std::string encode(const T& message) {
  const auto kind = static_cast<std::uint8_t>(AgentMessage(std::in_place_type<T>).index());
  const std::string payload = encode_wire<std::string>(message);
  WireWriter<std::string> writer(kFrameHeaderBytes + payload.size());
  writer(kind, payload);
  return writer.take();
}

/// Cuts a stream of bytes into messages.
class MessageReader {
 public:
  void feed(std::string_view bytes) { buffer_.append(bytes); }
  /// The next whole message, or nothing yet. Errors: kInvalidArgument where it is malformed.
  Result<std::optional<AgentMessage>> next();

 private:
  std::string buffer_;
};

}  // namespace ronde
