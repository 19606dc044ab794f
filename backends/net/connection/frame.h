// The frames of a connection with another rank, whatever it carries: rendezvous, control or data.
// A frame is a head of 16 bytes, and a body of as many bytes as the head says:
//
//   7 bytes: length of the body    1 byte: kind    8 bytes: number
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "backends/net/connection/stream.h"
#include "core/base/status.h"

namespace ronde::net {

enum class FrameKind : std::uint8_t {
  kBegin = 1,      ///< The first one on a connection.
  kData = 2,       ///< Numbered where its connection counts. The body is the sender's.
  kLost = 3,       ///< Numbered. A LostRank.
  kLast = 4,       ///< Numbered. The sender leaves the group or the job: nothing follows.
  kConfirm = 5,    ///< It tells what has arrived, and has nothing of its own.
  kEndWord = 6,    ///< The number is an EndWord.
  kHeartbeat = 7,  ///< The sender runs.
  kClose = 8,      ///< Numbered. As kLast, but it is no news for others yet.
};

/// True for a frame with a message.
constexpr bool has_message(FrameKind kind) noexcept {
  return kind == FrameKind::kData || kind == FrameKind::kLost;
}
constexpr bool is_goodbye(FrameKind kind) noexcept {
  return kind == FrameKind::kLast || kind == FrameKind::kClose;
}
/// True where a connection that heals delivers the frame once, in the order of the numbers.
constexpr bool is_numbered(FrameKind kind) noexcept {
  return has_message(kind) || is_goodbye(kind);
}

struct FrameHead {
  FrameKind kind{};
  std::uint64_t number = 0;
  std::uint64_t length = 0;  ///< Of the body; below 2^56.
};

inline constexpr std::size_t kFrameHeadBytes = 16;
using FrameHeadBytes = std::array<std::byte, kFrameHeadBytes>;

static_assert(std::endian::native == std::endian::little, "heads go over the wire as they are");

inline FrameHeadBytes encode_head(const FrameHead& head) noexcept {
  const std::uint64_t kind = static_cast<std::uint8_t>(head.kind);
  return std::bit_cast<FrameHeadBytes>(std::array{head.length | (kind << 56), head.number});
}

/// Reads the first kFrameHeadBytes of `bytes`. The kind may be none of the above.
inline FrameHead decode_head(std::span<const std::byte> bytes) noexcept {
  FrameHeadBytes head{};
  std::ranges::copy(bytes.first<kFrameHeadBytes>(), head.begin());
  const auto [first, number] = std::bit_cast<std::array<std::uint64_t, 2>>(head);
  return {.kind = static_cast<FrameKind>(first >> 56),
          .number = number,
          .length = first & ((std::uint64_t{1} << 56) - 1)};
}

/// Bytes that move at once; then the other direction has its turn.
inline constexpr std::size_t kTurnBytes = std::size_t{4} << 20;

/// How far a frame has got.
enum class Written : std::uint8_t {
  kBlocked,  ///< Poll for writing first.
  kPart,
  kAll,  ///< The socket has all of it.
};

/// Writes a frame on from byte `done`, which it moves. No call blocks. Errors: as Stream.
Result<Written> write_on(Stream& stream, std::span<const std::byte> head,
                         std::span<const std::byte> body, std::size_t& done);

/// A frame of the kind kData with this body.
std::string frame_of(std::string_view text);

/// Sends one. Blocks.
Status send_message(Stream& stream, std::string_view text, const WaitLimit& limit);

/// Receives the body of one. Blocks. Errors: as recv_all; kInvalidArgument where another kind
/// comes, or the head announces more than `most` bytes.
Result<std::string> recv_message(Stream& stream, std::size_t most, const WaitLimit& limit);

}  // namespace ronde::net
