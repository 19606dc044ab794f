// What launcher and agents tell one another, as structs; frame.h carries them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bindings/fates/fates.h"
#include "core/base/status.h"

namespace ronde {

/// The first line of an agent, followed by its version and a newline. What a remote shell prints
/// before it is skipped.
inline constexpr std::string_view kAgentGreeting = "RONDE-AGENT ";

/// "NAME=value", as in execve.
using EnvironmentList = std::vector<std::string>;

/// Asks the host of rank 0 where the others can meet it.
struct ProbeMessage {
  std::string interface;  ///< Name or address; empty: the address ssh came to, or `towards`.
  std::vector<std::string> towards;  ///< Names of the other hosts; empty where there are none.
};

/// The answer; `error` says why not.
struct ProbedMessage {
  std::string error;
  std::string address;
  int rendezvous_port = 0;
  int master_port = 0;
};

/// One rank to start.
struct RankStart {
  int rank = 0;
  EnvironmentList environment;
};

/// Everything an agent needs to start its ranks.
struct StartMessage {
  std::string directory;
  std::vector<std::string> command;
  std::string secret;           ///< Handed to each rank by a descriptor; never by its environment.
  EnvironmentList environment;  ///< Added to the agent's own, for all its ranks.
  std::vector<RankStart> ranks;
};

/// A piece of a rank's output; stream 1 or 2.
struct OutputMessage {
  int rank = 0;
  int stream = 1;
  std::string bytes;
};

/// A rank began (`wait_status` 0) or ended.
struct RankMessage {
  int rank = 0;
  int pid = 0;
  int wait_status = 0;
};

/// A command that could not be run at all; `exit_status` is 126 or 127 as in a shell.
struct CannotStartMessage {
  int rank = 0;
  int exit_status = 127;
  std::string text;
};

/// Each message as the bytes of a frame, and back. Errors: kInvalidArgument where it is malformed.
std::string encode(const ProbeMessage& message);
std::string encode(const ProbedMessage& message);
std::string encode(const StartMessage& message);
std::string encode(const OutputMessage& message);
std::string encode_started(const RankMessage& message);
std::string encode_exited(const RankMessage& message);
std::string encode(const CannotStartMessage& message);
std::string encode(const Fate& fate);
std::string encode_signal(int signal);

Result<ProbeMessage> decode_probe(std::string_view payload);
Result<ProbedMessage> decode_probed(std::string_view payload);
Result<StartMessage> decode_start(std::string_view payload);
Result<OutputMessage> decode_output(std::string_view payload);
Result<RankMessage> decode_rank(std::string_view payload);
Result<CannotStartMessage> decode_cannot_start(std::string_view payload);
Result<Fate> decode_fate(std::string_view payload);
Result<int> decode_signal(std::string_view payload);

}  // namespace ronde
