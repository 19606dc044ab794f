// The words on the connection of a PeerLink, 8 bytes each. A message is a word, its length, and the
// data. Larger words than any length are those of the connection itself.
#pragma once

#include <sys/uio.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "backends/net/link/stream.h"
#include "core/base/status.h"

namespace ronde::net {

using PeerWord = std::array<std::byte, 8>;

/// The dialer's first word on a connection.
inline constexpr std::uint64_t kBegin = ~std::uint64_t{0};
inline constexpr std::uint64_t kLargestLength = kBegin - 256;  // above: an EndWord, and kBegin

/// Bytes that move at once; then the other direction has its turn.
inline constexpr std::size_t kTurnBytes = std::size_t{4} << 20;

static_assert(std::endian::native == std::endian::little, "words go over the wire as they are");

inline PeerWord peer_word(std::uint64_t value) { return std::bit_cast<PeerWord>(value); }

/// Collects the bytes of one word after another. No call blocks. Threads: one.
class WordReader {
 public:
  /// The value of a word once all of it has arrived. Errors: as Stream.
  Result<std::optional<std::uint64_t>> read(Stream& stream) {
    const iovec rest{bytes_.data() + received_, bytes_.size() - received_};
    RONDE_ASSIGN_OR_RETURN(const std::size_t got, stream.receive({&rest, 1}));
    received_ += got;
    if (received_ < bytes_.size()) return std::optional<std::uint64_t>();
    received_ = 0;
    return std::optional(std::bit_cast<std::uint64_t>(bytes_));
  }
  /// True while a word has arrived in part.
  [[nodiscard]] bool is_reading() const noexcept { return received_ != 0; }

 private:
  PeerWord bytes_{};
  std::size_t received_ = 0;
};

}  // namespace ronde::net
