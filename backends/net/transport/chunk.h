// The pieces in which messages travel over connections that heal. Each is a header and its bytes.
//
// Chunks that carry data are numbered through, whatever message they belong to. The receiver drops
// a number that it has, and a message is whole only with all its bytes. So chunks may come again,
// over any connection and in any order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/base/status.h"
#include "core/base/wire_codec.h"

namespace ronde::net {

inline constexpr std::size_t kMaxChunkBytes = std::size_t{256} << 10;

enum class ChunkKind : std::uint32_t {
  kGreeting = 1,         ///< The first on each connection, both ways.
  kData = 2,             ///< Numbered. A part of a message.
  kGoodbye = 3,          ///< Numbered. The sender leaves the group; it is its last one.
  kAcknowledgement = 4,  ///< Has nothing of its own.
  kRest = 5,             ///< Asks the peer to do without this connection until it is needed.
  kRested = 6,           ///< Agrees: the other side may close it.
  kStay = 7,             ///< The sender does not close it: it has a use for it again.
};

/// Comes before the bytes of each chunk.
struct ChunkHeader {
  ChunkKind kind = ChunkKind::kAcknowledgement;
  std::uint32_t length = 0;     ///< Bytes that follow.
  std::uint64_t sequence = 0;   ///< Of a numbered chunk.
  std::uint64_t message = 0;    ///< The number of the message; of a greeting: of the attempt.
  std::uint64_t offset = 0;     ///< In the message.
  std::uint64_t total = 0;      ///< Bytes of the message.
  std::uint64_t received = 0;   ///< The sender has all chunks of the peer below this number.
  std::uint64_t delivered = 0;  ///< It has put all below this one into posted receives.

  static void fields(auto& wire, auto& self) {
    wire(self.kind, self.length, self.sequence, self.message, self.offset, self.total,
         self.received, self.delivered);
  }
};
inline constexpr std::size_t kChunkHeaderBytes = 56;
static_assert(sizeof(ChunkHeader) == kChunkHeaderBytes);

using ChunkHeaderBytes = std::array<std::byte, kChunkHeaderBytes>;

/// The cost of one chunk in a window, beside its bytes: many small messages have a bound too.
inline constexpr std::size_t kChunkCost = 64;

/// True where a chunk is numbered.
constexpr bool is_numbered(ChunkKind kind) noexcept {
  return kind == ChunkKind::kData || kind == ChunkKind::kGoodbye;
}

}  // namespace ronde::net
