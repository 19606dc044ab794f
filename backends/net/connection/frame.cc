#include "backends/net/connection/frame.h"

#include <fmt/format.h>

#include "core/base/bytes.h"

namespace ronde::net {

Result<Written> write_on(Stream& stream, std::span<const std::byte> head,
                         std::span<const std::byte> body, std::size_t& done) {
  const std::size_t whole = head.size() + body.size();
  if (done < whole) {
    const auto address = [](std::span<const std::byte> bytes) {
      return const_cast<std::byte*>(bytes.data());
    };
    const auto rest = head.subspan(std::min(done, head.size()));
    const auto tail = body.subspan(done - std::min(done, head.size()));
    const std::array pieces{iovec{address(rest), rest.size()},
                            iovec{address(tail), std::min(tail.size(), kTurnBytes)}};
    RONDE_ASSIGN_OR_RETURN(const std::size_t sent, stream.send(pieces));
    if (sent == 0) return Written::kBlocked;
    done += sent;
  }
  if (done < whole) return Written::kPart;
  // Nobody writes the rest of it outside of a turn.
  RONDE_RETURN_IF_ERROR(stream.flush());
  return stream.has_unsent() ? Written::kBlocked : Written::kAll;
}

std::string frame_of(std::string_view text) {
  const auto head = encode_head({.kind = FrameKind::kData, .length = text.size()});
  return std::string(as_text(head)).append(text);
}

Status send_message(Stream& stream, std::string_view text, const WaitLimit& limit) {
  return send_all(stream, as_bytes(frame_of(text)), limit);
}

Result<std::string> recv_message(Stream& stream, std::size_t most, const WaitLimit& limit) {
  FrameHeadBytes bytes{};
  RONDE_RETURN_IF_ERROR(recv_all(stream, bytes, limit));
  const FrameHead head = decode_head(bytes);
  if (head.kind != FrameKind::kData || head.length > most) {
    return Status(Code::kInvalidArgument,
                  fmt::format("a frame of kind {} and {} bytes was announced; allowed is a message "
                              "of at most {} bytes",
                              static_cast<int>(head.kind), head.length, most));
  }
  std::string text(head.length, '\0');
  RONDE_RETURN_IF_ERROR(recv_all(stream, std::as_writable_bytes(std::span(text)), limit));
  return text;
}

}  // namespace ronde::net
