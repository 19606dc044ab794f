// Length-prefixed frames and fields: how the launcher and its agents speak over pipes and ssh.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace ronde {

/// What a frame says. Launcher to agent: probe, start, signal, fetch; the rest the other way.
enum class FrameType : std::uint8_t {
  kProbe = 1,
  kProbed = 2,
  kStart = 3,
  kSignal = 4,
  kStarted = 5,
  kOutput = 6,
  kExited = 7,
  kCannotStart = 8,
  kFate = 9,  ///< Both ways: the launcher passes it on to the other agents.
};

inline constexpr std::size_t kMaxAgentFrameBytes = std::size_t{64} << 20;

/// One whole frame.
struct Frame {
  FrameType type = FrameType::kProbe;
  std::string payload;
};

/// A frame as bytes: type, length (4 bytes, little-endian), payload.
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

/// Writes fields one after the other.
class FieldWriter {
 public:
  FieldWriter& number(std::int64_t value);
  FieldWriter& text(std::string_view value);
  FieldWriter& texts(const std::vector<std::string>& values);
  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }

 private:
  std::string bytes_;
};

/// Reads what FieldWriter wrote. After a field that does not fit, ok() is false and all further
/// fields are empty.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) : rest_(bytes) {}
  std::int64_t number();
  std::string text();
  std::vector<std::string> texts();
  [[nodiscard]] bool ok() const noexcept { return ok_; }

 private:
  std::string_view take(std::size_t count);

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace ronde
