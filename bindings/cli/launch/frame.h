// Frames with their length before: what the launcher and its agents exchange over pipes and ssh.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace ronde {

/// The kind of a frame. Launcher to agent: probe, start, signal; the rest the other way.
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
};

inline constexpr std::size_t kMaxAgentFrameBytes = std::size_t{64} << 20;

/// One whole frame.
struct Frame {
  FrameType type = FrameType::kProbe;
  std::string payload;
};

/// A frame as bytes: the type, and the payload as a text of the wire codec.
std::string encode_frame(FrameType type, std::string_view payload);

/// Cuts a stream of bytes into frames.
class AgentFrameReader {
 public:
  void feed(std::string_view bytes) { buffer_.append(bytes); }
  /// The next whole frame, or nothing yet. Errors: kInvalidArgument where the length is absurd.
  Result<std::optional<Frame>> next();

 private:
  std::string buffer_;
};

}  // namespace ronde
