#include "bindings/cli/launch/messages.h"

namespace ronde {
namespace {

template <std::size_t... place>
Result<AgentMessage> decode(std::size_t kind, std::string_view payload,
                            std::index_sequence<place...> /*all*/) {
  WireReader reader(as_bytes(payload), "message of the launcher");
  AgentMessage message;
  const bool known = ((kind == place && (reader(message.emplace<place>()), true)) || ...);
  reader.require(known, "its kind is unknown");
  RONDE_RETURN_IF_ERROR(reader.finish());
  return message;
}

}  // namespace

Result<std::optional<AgentMessage>> MessageReader::next() {
  if (buffer_.size() < kFrameHeaderBytes) return std::optional<AgentMessage>();
  WireReader reader(as_bytes(buffer_), "frame of the launcher");
  std::uint8_t kind = 0;
  std::uint32_t length = 0;
  reader(kind, length);
  if (length > kMaxAgentFrameBytes) return Status(Code::kInvalidArgument, "a frame is too long");
  if (buffer_.size() < kFrameHeaderBytes + length) return std::optional<AgentMessage>();
  const std::string payload = buffer_.substr(kFrameHeaderBytes, length);
  buffer_.erase(0, kFrameHeaderBytes + length);
  RONDE_ASSIGN_OR_RETURN(
      AgentMessage message,
      decode(kind, payload, std::make_index_sequence<std::variant_size_v<AgentMessage>>()));
  return std::optional<AgentMessage>(std::move(message));
}

}  // namespace ronde
