// One connection that carries chunks: the stream of them, its greeting, and what goes both ways
// until its end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backends/net/connection/stream.h"
#include "backends/net/connection/tcp_progress.h"
#include "backends/net/mesh/connection_budget.h"
#include "backends/net/peer/end_agreement.h"
#include "backends/net/peer/windows.h"
#include "core/base/clock.h"
#include "core/base/status.h"

namespace ronde::net {

// Chunks on one connection.

/// Writes and reads chunks. No call blocks. Threads: one.
/// Errors of write and read: as Stream; kInternal where the peer sent what is no chunk; kCorrupted
/// where a checksum is wrong, before the chunk or its header counts.
class ChunkStream {
 public:
  /// `heals`: headers tell what has arrived. Else they are heads of frames alone.
  ChunkStream(Stream stream, bool heals) noexcept
      : stream_(std::move(stream)), heals_(heals), checks_(stream_.has_checksums()) {}

  [[nodiscard]] int fd() const noexcept { return stream_.fd(); }
  /// The bytes of a chunk with a window of 0. Those of a checksum are in the cache when it is made.
  [[nodiscard]] std::size_t most_bytes() const noexcept {
    return checks_ ? kMaxChunkBytes : kWholeMessage;
  }

  /// Begins a chunk; the one before is written. `bytes` stay as they are until this one is.
  void begin(const ChunkHeader& header, std::span<const std::byte> bytes);
  [[nodiscard]] bool writing() const noexcept { return writing_; }
  [[nodiscard]] const ChunkHeader& outgoing() const noexcept { return out_; }
  /// Writes what goes in one turn.
  Result<Written> write();

  /// The next step of reading.
  enum class Step : std::uint8_t {
    kNothing,  ///< Poll for reading first.
    kPart,     ///< More of the chunk may be there.
    kHeader,   ///< incoming() is known: say where its bytes go by place().
    kChunk,    ///< All bytes of incoming() are there.
  };
  /// `dry`: the socket has no more now. A short read sets it.
  Result<Step> read(bool& dry);
  [[nodiscard]] const ChunkHeader& incoming() const noexcept { return in_; }
  /// Reads the bytes of the chunk into `place`, or where it is empty into held(). Does nothing
  /// where no header waits for it.
  void place(std::span<std::byte> place);
  /// Reads the rest of the chunk that is on its way into held(): its place is not this stream's any
  /// more.
  void drop_place();
  [[nodiscard]] std::span<const std::byte> held() const noexcept {
    return holds_ ? std::span<const std::byte>(held_).first(in_.length)
                  : std::span<const std::byte>();
  }
  /// True where a sleep in poll() would miss bytes that have arrived.
  [[nodiscard]] bool has_unread() const noexcept {
    return stream_.has_unread() || awaits_place() || ahead().size() >= head_bytes();
  }
  /// True while a header has no place for its bytes yet.
  [[nodiscard]] bool awaits_place() const noexcept { return state_ == State::kJudged; }
  /// True while a chunk has arrived in part.
  [[nodiscard]] bool reading() const noexcept { return state_ != State::kHead || !ahead().empty(); }
  /// Counts the reads that brought bytes.
  [[nodiscard]] std::uint64_t reads() const noexcept { return reads_; }
  /// Drops what has arrived. True where the peer's host has all that was written.
  bool drain();

 private:
  enum class State : std::uint8_t { kHead, kJudged, kBody };

  [[nodiscard]] std::size_t head_bytes() const noexcept {
    if (checks_) return kChunkHeaderBytes;
    return heals_ ? kChunkHeaderBytes - kChunkChecksumsBytes : kFrameHeadBytes;
  }
  [[nodiscard]] std::span<std::byte> body() noexcept {
    return (holds_ ? std::span(held_) : place_).first(in_.length);
  }
  /// The bytes that were read and not used yet.
  [[nodiscard]] std::span<const std::byte> ahead() const noexcept {
    return std::span(ahead_).subspan(ahead_used_, ahead_end_ - ahead_used_);
  }
  void seal(std::span<const std::byte> bytes) noexcept;
  Result<std::size_t> receive(bool& dry);
  Result<Step> end_of_head();
  Result<Step> end_of_body();
  std::span<std::byte> rest_of_body() noexcept;

  Stream stream_;
  bool heals_;
  bool checks_;
  // The chunk on its way out.
  bool writing_ = false;
  ChunkHeader out_;
  ChunkHeaderBytes head_out_{};
  std::span<const std::byte> body_out_;
  std::size_t written_ = 0;  // of both
  // The chunk on its way in.
  State state_ = State::kHead;
  ChunkHeader in_;
  std::array<std::byte, 1024> ahead_{};  // a head and a small body come by one read
  std::size_t ahead_used_ = 0;
  std::size_t ahead_end_ = 0;
  std::uint64_t reads_ = 0;
  std::span<std::byte> place_;
  std::vector<std::byte> held_;
  bool holds_ = false;
  bool torn_ = false;  // only the rest of the chunk is held: another connection has brought it
  std::size_t body_got_ = 0;
};

/// A connection that may carry chunks.
struct GreetedConnection {
  ChunkStream chunks;
  std::unique_ptr<CountedConnection> counted;
  std::uint64_t attempt = 0;  ///< The dialer counts its connections.
};

// The chunks that go both ways over one connection, from its greeting to its end.
//
// Where it heals, each header acknowledges what has arrived. A chunk without data does so where
// none is to be sent, or carries a word about its end: see end_agreement.h.

/// Fills and empties the windows over one connection. No call blocks. Threads: one at a time.
/// Errors of send and receive: as Stream; kInternal where the peer sent another length than was
/// expected, or what cannot be.
class ChunkExchange {
 public:
  /// Goes on behind the greetings. Where the peer has dialed, this rank's follows if it heals.
  ChunkExchange(GreetedConnection connection, const ConnectionArgs& args);

  /// Sends what goes now. `takes`: chunks of the windows too, not only what concerns the
  /// connection. `more`: more may go without a poll().
  Status send(bool takes, bool& more);
  /// Takes what has arrived. False: both sides agreed that this one closes the connection. `tends`:
  /// a connection that carries nothing now is read too. `more`: more may be there.
  Result<bool> receive(bool tends, bool& more);
  /// True where receive() reads. Without a window, messages wait in the socket for their receive.
  [[nodiscard]] bool reads(bool tends = false) const noexcept {
    if (args_.windows.receives.takes()) return true;
    return !chunks_.awaits_place() && (tends || agreement_.granted());
  }
  /// True where send() has something to send.
  [[nodiscard]] bool has_output(bool takes) const noexcept {
    return chunks_.writing() || !words_.empty() || acknowledges() ||
           (takes && may_take() && args_.windows.sends.has_waiting());
  }
  /// Reads a chunk no longer into its receive where another connection has brought it.
  void drop_known_chunk() {
    const bool known = args_.shares && args_.windows.receives.has(chunks_.incoming().sequence);
    if (known) chunks_.drop_place();
  }

  /// Sends a heartbeat, or without one acknowledges what has arrived.
  void beat(bool heartbeat) noexcept {
    heartbeat_ = heartbeat;
    const std::uint64_t delivered = args_.windows.receives.delivered_cost();
    if (!heartbeat && delivered != reported_cost_) acknowledge_now_ = true;
  }
  /// True once the peer has sent a heartbeat.
  [[nodiscard]] bool heard_heartbeat() const noexcept { return heard_heartbeat_; }
  /// As ChunkStream::reads.
  [[nodiscard]] std::uint64_t signs_of_life() const noexcept { return chunks_.reads(); }

  /// Returns how long the peer's host has been silent.
  Duration look(TimePoint time) noexcept;
  /// True where the last look has found it silent.
  [[nodiscard]] bool is_silent() const noexcept { return silent_; }
  /// True while looks are needed.
  [[nodiscard]] bool needs_looks() const noexcept { return wrote_ || silence_.waiting(); }

  /// True where the connection carries nothing and may rest.
  [[nodiscard]] bool may_rest() const noexcept {
    return agreement_.may_ask() && words_.empty() && !args_.windows.has_posted() &&
           !chunks_.writing() && !chunks_.reading();
  }
  /// Asks the peer for that.
  void ask_to_rest() { say(agreement_.ask()); }
  /// True where the peer may close the connection.
  [[nodiscard]] bool may_be_closed() const noexcept { return !may_take(); }
  /// True once this rank has told the peer that it closes the connection.
  [[nodiscard]] bool has_ended() const noexcept { return ended_; }

  /// For poll().
  [[nodiscard]] int fd() const noexcept { return chunks_.fd(); }
  /// True where a sleep in poll() would miss bytes that have arrived.
  [[nodiscard]] bool has_unread() const noexcept { return reads() && chunks_.has_unread(); }
  /// As ChunkStream::drain.
  bool drain() { return chunks_.drain(); }

 private:
  [[nodiscard]] bool acknowledges() const noexcept;
  /// False while the connection ends unless one side keeps it.
  [[nodiscard]] bool may_take() const noexcept {
    return !agreement_.granted() && !agreement_.closing();
  }
  void say(std::optional<EndWord> word);
  Result<bool> on_word(EndWord said);
  bool begin_next(bool takes);
  [[nodiscard]] int turns() const noexcept;
  Status on_header();
  Result<bool> on_chunk();

  const ConnectionArgs args_;
  std::unique_ptr<CountedConnection> counted_;  // one about to end does not count in the limit
  EndAgreement agreement_;
  std::deque<EndWord> words_;  // to be sent
  bool ended_ = false;
  ChunkStream chunks_;
  SilenceClock silence_;
  bool silent_ = false;
  bool wrote_ = false;               // since the last look
  std::uint64_t reported_cost_ = 0;  // of what the peer knows to be delivered
  bool acknowledge_now_;             // an acceptor's greeting tells
  bool heartbeat_ = false;           // is to be sent
  bool heard_heartbeat_ = false;
};

}  // namespace ronde::net
