#include "bindings/cli/launch/messages.h"

#include "core/base/wire_codec.h"

namespace ronde {
namespace {

constexpr std::size_t kHeaderBytes = 5;

}  // namespace

std::string encode_frame(FrameType type, std::string_view payload) {
  WireWriter<std::string> writer(kHeaderBytes + payload.size());
  writer(type, payload);
  return writer.take();
}

Result<std::optional<Frame>> AgentFrameReader::next() {
  if (buffer_.size() < kHeaderBytes) return std::optional<Frame>();
  WireReader reader(as_bytes(buffer_), "frame of the launcher");
  FrameType type{};
  std::uint32_t length = 0;
  reader(type, length);
  if (length > kMaxAgentFrameBytes) return Status(Code::kInvalidArgument, "a frame is too long");
  if (buffer_.size() < kHeaderBytes + length) return std::optional<Frame>();
  std::optional<Frame> frame({type, buffer_.substr(kHeaderBytes, length)});
  buffer_.erase(0, kHeaderBytes + length);
  return frame;
}

}  // namespace ronde
