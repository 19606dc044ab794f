// The messages between launcher and agents: each is the payload of a frame, in the wire codec. The
// agent's greeting says its version before the first frame.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/exit_log/exit_log.h"
#include "core/base/status.h"
#include "core/base/wire_codec.h"

namespace ronde {

/// The kind of a frame. Launcher to agent: probe, start, start rank, start agent, signal, input,
/// call, listen, reach, suspect. Agent to launcher: the others.
enum class FrameType : std::uint8_t {
  kProbe = 1,
  kProbed = 2,
  kStart = 3,
  kSignal = 4,
  kStarted = 5,
  kOutput = 6,
  kExited = 7,
  kCannotStart = 8,
  kProcessExit = 9,  ///< Both ways: the launcher sends it on to the other agents.
  kStartRank = 10,
  kNote = 11,  ///< Both ways.
  kFrozen = 12,
  kPing = 13,  ///< Both ways, empty: a sign of life, in elastic jobs.
  kInput = 14,
  kCall = 15,
  kAnswer = 16,
  kStartAgent = 17,
  kRelay = 18,  ///< Both ways.
  kAgentEnd = 19,
  kListen = 20,
  kListening = 21,
  kReach = 22,
  kReached = 23,
  kSuspect = 24,
};

inline constexpr std::size_t kFrameHeaderBytes = 5;
inline constexpr std::size_t kMaxAgentFrameBytes = std::size_t{64} << 20;

/// One whole frame.
struct Frame {
  FrameType type = FrameType::kProbe;
  std::string payload;
};

/// A frame as bytes: the type, and the payload as a text of the wire codec.
inline std::string encode_frame(FrameType type, std::string_view payload) {
  WireWriter<std::string> writer(kFrameHeaderBytes + payload.size());
  writer(type, payload);
  return writer.take();
}

/// Cuts a stream of bytes into frames.
class AgentFrameReader {
 public:
  void feed(std::string_view bytes) { buffer_.append(bytes); }
  /// The next whole frame, or nothing yet. Errors: kInvalidArgument where the length is absurd.
  Result<std::optional<Frame>> next() {
    if (buffer_.size() < kFrameHeaderBytes) return std::optional<Frame>();
    WireReader reader(as_bytes(buffer_), "frame of the launcher");
    FrameType type{};
    std::uint32_t length = 0;
    reader(type, length);
    if (length > kMaxAgentFrameBytes) return Status(Code::kInvalidArgument, "a frame is too long");
    if (buffer_.size() < kFrameHeaderBytes + length) return std::optional<Frame>();
    std::optional<Frame> frame({type, buffer_.substr(kFrameHeaderBytes, length)});
    buffer_.erase(0, kFrameHeaderBytes + length);
    return frame;
  }

 private:
  std::string buffer_;
};

/// The first line of an agent, followed by its version and a newline. What a remote shell prints
/// before it is skipped.
inline constexpr std::string_view kAgentGreeting = "RONDE-AGENT ";

/// "NAME=value", as in execve.
using EnvironmentList = std::vector<std::string>;

/// Asks a host for an address that others can connect to.
struct ProbeMessage {
  std::string interface;  ///< Name or address; empty: the address ssh came to, or `towards`.
  std::vector<std::string> towards;  ///< Names of the other hosts; empty where there are none.

  static constexpr FrameType kFrame = FrameType::kProbe;
  static void fields(auto& wire, auto& self) { wire(self.interface, self.towards); }
};

/// The answer; `error` says why not.
struct ProbedMessage {
  std::string error;
  std::string address;
  int rendezvous_port = 0;
  int master_port = 0;

  static constexpr FrameType kFrame = FrameType::kProbed;
  static void fields(auto& wire, auto& self) {
    wire(self.error, self.address, self.rendezvous_port, self.master_port);
  }
};

/// Asks a host to let others connect for a while, at an address as for ProbeMessage.
struct ListenMessage {
  int trial = 0;  ///< The answer has the same number.
  std::string interface;
  std::vector<std::string> towards;

  static constexpr FrameType kFrame = FrameType::kListen;
  static void fields(auto& wire, auto& self) { wire(self.trial, self.interface, self.towards); }
};

/// The answer. `place`: "10.0.0.1:4000"; empty where the host cannot listen.
struct ListeningMessage {
  int trial = 0;
  std::string place;

  static constexpr FrameType kFrame = FrameType::kListening;
  static void fields(auto& wire, auto& self) { wire(self.trial, self.place); }
};

/// Asks a host if it can connect to these places.
struct ReachMessage {
  int trial = 0;
  std::vector<std::string> places;

  static constexpr FrameType kFrame = FrameType::kReach;
  static void fields(auto& wire, auto& self) { wire(self.trial, self.places); }
};

/// The answer: the places to which it cannot, each with the reason.
struct ReachedMessage {
  int trial = 0;
  std::vector<std::string> missed;

  static constexpr FrameType kFrame = FrameType::kReached;
  static void fields(auto& wire, auto& self) { wire(self.trial, self.missed); }
};

/// One rank to start. A worker of an elastic job counts as rank here: its number less one.
struct RankStart {
  int rank = 0;
  EnvironmentList environment;

  static constexpr FrameType kFrame = FrameType::kStartRank;
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

  static constexpr FrameType kFrame = FrameType::kStart;
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

  static constexpr FrameType kFrame = FrameType::kOutput;
  static void fields(auto& wire, auto& self) { wire(self.rank, self.stream, self.bytes); }
};

/// A piece of standard input for AgentOptions::stdin_rank. Empty: its end.
struct InputMessage {
  std::string bytes;

  static constexpr FrameType kFrame = FrameType::kInput;
  static void fields(auto& wire, auto& self) { wire(self.bytes); }
};

/// A message has so many bytes of a call or an answer at most.
inline constexpr std::size_t kCallPieceBytes = std::size_t{1} << 20;

/// A piece of what ronde.run() calls, for all ranks. Comes before StartMessage.
struct CallMessage {
  std::string bytes;

  static constexpr FrameType kFrame = FrameType::kCall;
  static void fields(auto& wire, auto& self) { wire(self.bytes); }
};

/// A piece of a rank's answer to the call. Empty: its end.
struct AnswerMessage {
  int rank = 0;
  std::string bytes;

  static constexpr FrameType kFrame = FrameType::kAnswer;
  static void fields(auto& wire, auto& self) { wire(self.rank, self.bytes); }
};

/// A rank began (`wait_status` 0) or ended.
struct RankMessage {
  int rank = 0;
  int pid = 0;
  int wait_status = 0;
  bool joined = false;  ///< At its end: some rank of its host has joined a job by then.
  /// The step of the copies of an elastic job's state that the rank was given, or has left; -1:
  /// none.
  std::int64_t copy_step = -1;

  static void fields(auto& wire, auto& self) {
    wire(self.rank, self.pid, self.wait_status, self.joined, self.copy_step);
  }
};

/// A command that could not be run at all; `exit_status` is 126 or 127 as in a shell.
struct CannotStartMessage {
  int rank = 0;
  int exit_status = 127;
  std::string text;

  static constexpr FrameType kFrame = FrameType::kCannotStart;
  static void fields(auto& wire, auto& self) { wire(self.rank, self.exit_status, self.text); }
};

/// A worker of an elastic job has been stopped for so long, by SIGSTOP or a debugger.
struct FrozenMessage {
  int rank = 0;
  int seconds = 0;

  static constexpr FrameType kFrame = FrameType::kFrozen;
  static void fields(auto& wire, auto& self) { wire(self.rank, self.seconds); }
};

/// Others have lost this rank: its end is to be reported as soon as it is certain.
struct SuspectMessage {
  int rank = 0;

  static constexpr FrameType kFrame = FrameType::kSuspect;
  static void fields(auto& wire, auto& self) { wire(self.rank); }
};

/// Asks an agent to send a signal to its ranks.
struct SignalMessage {
  static constexpr int kAllRanks = -1;

  int signal = 0;
  int rank = kAllRanks;

  static constexpr FrameType kFrame = FrameType::kSignal;
  static void fields(auto& wire, auto& self) { wire(self.signal, self.rank); }
};

/// Asks an agent to start another one, which has this number.
struct StartAgentMessage {
  int agent = 0;
  std::vector<std::string> command;

  static constexpr FrameType kFrame = FrameType::kStartAgent;
  static void fields(auto& wire, auto& self) { wire(self.agent, self.command); }
};

/// Bytes from or to an agent that another one has started. None, to it: its input ends.
struct RelayMessage {
  int agent = 0;
  std::string bytes;

  static constexpr FrameType kFrame = FrameType::kRelay;
  static void fields(auto& wire, auto& self) { wire(self.agent, self.bytes); }
};

/// An agent that another one has started ended, or could not be started: status 0.
struct AgentEndMessage {
  int agent = 0;
  int wait_status = 0;

  static constexpr FrameType kFrame = FrameType::kAgentEnd;
  static void fields(auto& wire, auto& self) { wire(self.agent, self.wait_status); }
};

/// A note from or to a worker: core/elastic/notes.h.
struct NoteMessage {
  int rank = 0;
  std::string bytes;

  static constexpr FrameType kFrame = FrameType::kNote;
  static void fields(auto& wire, auto& self) { wire(self.rank, self.bytes); }
};

/// The kind of a message's frames.
template <typename Message>
inline constexpr FrameType kFrameOf = Message::kFrame;
template <>
inline constexpr FrameType kFrameOf<ProcessExit> = FrameType::kProcessExit;

/// A message as the bytes of a frame.
template <typename Message>
std::string encode(const Message& message, FrameType type = kFrameOf<Message>) {
  return encode_frame(type, encode_wire<std::string>(message));
}

/// A frame's payload as a message. Errors: kInvalidArgument where it is malformed.
template <typename Message>
Result<Message> decode(std::string_view payload) {
  return decode_wire<Message>(as_bytes(payload), "message of the launcher");
}

/// Calls `use` with the message of a frame of this kind, if it is well formed. Returns true if the
/// frame is of this kind.
template <typename Message>
bool with_message(const Frame& frame, auto use, FrameType type = kFrameOf<Message>) {
  if (frame.type != type) return false;
  if (auto message = decode<Message>(frame.payload); message.ok()) use(std::move(message).value());
  return true;
}

}  // namespace ronde
