// The sending half of a PeerLink: messages, and words of the connection between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>

#include "backends/net/link/stream.h"
#include "backends/net/transport/peer_words.h"
#include "core/base/status.h"

namespace ronde::net {

/// Sends in order. No call blocks. Threads: one.
class MessageSends {
 public:
  enum class Step : std::uint8_t {
    kBlocked,  ///< Poll for writing first.
    kMoved,
    kClosed,  ///< The last word of the connection has gone.
  };

  /// Returns the number of the message: the first is 0. They end in this order. `data` stays as it
  /// is until then.
  std::uint64_t post(std::span<const std::byte> data);
  /// A word behind all that is posted. `closes`: it is the last one of the connection.
  void post_word(std::uint64_t word, bool closes = false);
  /// The first word of a new connection, before all that is posted.
  void begin_connection();
  /// The connection has ended: its words are not sent any more.
  void drop_words();

  [[nodiscard]] bool empty() const noexcept { return queue_.empty(); }
  /// True while messages are not done.
  [[nodiscard]] bool busy() const noexcept { return done_ != posted_; }
  [[nodiscard]] bool sent(std::uint64_t number) const noexcept { return done_ > number; }
  /// True where the first may go out. `words_only`: a message may not.
  [[nodiscard]] bool may_send(bool words_only) const noexcept {
    return !queue_.empty() && !(words_only && queue_.front().counts);
  }

  /// Sends what the connection takes now of the first, which there is. Errors: as Stream.
  Result<Step> step(Stream& stream);

 private:
  struct Outgoing {
    PeerWord header;
    std::span<const std::byte> data;
    bool counts = true;    // false: a word of the connection
    bool closes = false;   // it is the last word
    std::size_t sent = 0;  // header included
  };

  std::deque<Outgoing> queue_;
  std::uint64_t posted_ = 0;
  std::uint64_t done_ = 0;
};

}  // namespace ronde::net
