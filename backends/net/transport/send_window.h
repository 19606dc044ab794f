// The sending half of a link that heals: cuts messages into chunks and keeps each until the peer
// has delivered it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>

#include "backends/net/transport/chunk.h"

namespace ronde::net {

/// A chunk to send. Its bytes stay as they are until the peer has it.
struct OutgoingChunk {
  ChunkHeader header;
  std::span<const std::byte> bytes;
};

/// Holds copies of the chunks that may have to be sent again. Algorithms overwrite what they sent.
/// Threads: one.
class SendWindow {
 public:
  /// At most `bytes` are held, which is also how far the sender may be ahead of the receiver.
  explicit SendWindow(std::size_t bytes, std::size_t chunk_bytes = kMaxChunkBytes) noexcept
      : capacity_(bytes), chunk_bytes_(chunk_bytes) {}

  /// Returns the number of the message: the first is 0. `data` is not read once it is sent().
  std::uint64_t post(std::span<const std::byte> data);
  /// Ends the stream of messages with a goodbye.
  void post_goodbye() { goodbye_posted_ = true; }

  /// True once all of the message went into a connection, one time at least.
  [[nodiscard]] bool sent(std::uint64_t number) const noexcept { return sent_ > number; }
  /// True while messages are not sent.
  [[nodiscard]] bool has_posted() const noexcept { return posted_ > sent_; }
  /// True while chunks wait for a connection that takes them.
  [[nodiscard]] bool has_waiting() const noexcept;
  /// True while the peer may lack a chunk, a posted goodbye included.
  [[nodiscard]] bool has_unconfirmed() const noexcept {
    return next_ > received_by_peer_ || owes_goodbye();
  }

  /// The next chunk: first those that were lost. Nothing where there is none, or where the window
  /// is full. `lane`: the connection that takes it.
  std::optional<OutgoingChunk> take(std::size_t lane = 0);
  /// The chunk went into its connection.
  void written(std::uint64_t sequence);
  /// The connection ended: all chunks that it took and the peer lacks are to be sent again.
  void lose(std::size_t lane = 0);
  /// The state of the peer, as its headers report it. False where that cannot be.
  bool acknowledge(std::uint64_t received, std::uint64_t delivered);

 private:
  struct Kept {
    OutgoingChunk chunk;
    std::size_t lane = 0;
    bool written = false;
  };
  struct Posted {
    std::span<const std::byte> data;
    std::size_t cut = 0;  // bytes that are in chunks
  };

  [[nodiscard]] bool owes_goodbye() const noexcept { return goodbye_posted_ && !goodbye_cut_; }
  [[nodiscard]] bool can_cut() const noexcept;
  [[nodiscard]] bool full() const noexcept {
    return used_ + kept_.size() * kChunkCost >= capacity_;
  }
  [[nodiscard]] std::uint64_t first() const noexcept { return next_ - kept_.size(); }
  Kept& kept(std::uint64_t sequence) { return kept_[sequence - first()]; }
  OutgoingChunk cut();
  OutgoingChunk cut_message();
  std::span<std::byte> room(std::size_t most);
  void drop_front();
  void note_sent();

  const std::size_t capacity_;
  const std::size_t chunk_bytes_;
  std::deque<Posted> messages_;  // not wholly cut
  std::uint64_t cut_ = 0;        // number of the message at the front
  std::uint64_t posted_ = 0;
  std::uint64_t sent_ = 0;
  bool goodbye_posted_ = false;
  bool goodbye_cut_ = false;
  // Numbered chunks.
  std::deque<Kept> kept_;
  std::uint64_t next_ = 0;          // number of the next one
  std::uint64_t written_ = 0;       // all below it were written
  std::deque<std::uint64_t> ends_;  // of messages that are cut and not sent: the last chunk
  std::set<std::uint64_t> lost_;
  std::uint64_t received_by_peer_ = 0;
  // A ring of bytes: of the kept chunks, in their order.
  std::unique_ptr<std::byte[]> ring_;
  std::size_t end_ = 0;
  std::size_t used_ = 0;
};

}  // namespace ronde::net
