// The receiving half of a PeerLink: messages, and words of the connection between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "backends/net/link/stream.h"
#include "backends/net/transport/peer_words.h"
#include "core/base/status.h"

namespace ronde::net {

/// Receives in order. No call blocks. Threads: one.
class MessageReceives {
 public:
  enum class Step : std::uint8_t {
    kBlocked,  ///< Poll for reading first.
    kMoved,
    kMessage,  ///< The first message that was awaited is there.
    kWord,     ///< word() is there.
  };

  /// Returns the number of the message: the first is 0. They end in this order.
  std::uint64_t post(std::span<std::byte> data);
  /// The connection has ended: a word that has arrived in part counts no more.
  void drop_word() noexcept { reader_ = {}; }

  /// True while messages are awaited.
  [[nodiscard]] bool busy() const noexcept { return !queue_.empty(); }
  [[nodiscard]] bool received(std::uint64_t number) const noexcept { return done_ > number; }
  /// True while the length of a message has arrived, and its data has not.
  [[nodiscard]] bool in_message() const noexcept { return announced_.has_value(); }
  /// True while a word has arrived in part.
  [[nodiscard]] bool in_word() const noexcept { return reader_.is_reading(); }

  /// Reads what has arrived of a word, or of the data of the first message.
  /// Errors: as Stream; kInternal where the peer sent another length than was expected.
  Result<Step> step(Stream& stream);
  /// The word of the connection that the last step has read.
  [[nodiscard]] std::uint64_t word() const noexcept { return word_; }

 private:
  struct Incoming {
    std::span<std::byte> data;
    std::size_t received = 0;
  };

  Result<Step> receive_data(Stream& stream);

  std::deque<Incoming> queue_;
  WordReader reader_;
  std::uint64_t word_ = 0;
  std::optional<std::uint64_t> announced_;  // length of the message that comes next
  std::uint64_t posted_ = 0;
  std::uint64_t done_ = 0;
};

}  // namespace ronde::net
