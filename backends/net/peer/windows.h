// The pieces in which messages travel between two ranks. Each is a header and its bytes.
//
// With a window of bytes, connections heal. Chunks that carry data are numbered through, whatever
// message they belong to. The receiver drops a number that it has, and a message is whole only with
// all its bytes. So chunks may come again, over any connection and in any order.
//
// With a window of 0, a chunk is a whole message, or a part where the connection has checksums. It
// goes once and in order from the posted send to the posted receive: nothing is copied, kept or
// acknowledged.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "backends/net/connection/frame.h"
#include "core/base/status.h"
#include "core/base/wire_codec.h"

namespace ronde::net {

inline constexpr std::size_t kMaxChunkBytes = std::size_t{256} << 10;

/// Comes before the bytes of each chunk: the head of its frame, and the numbers that it begins
/// with. kBegin: the first on each connection. kLast: the goodbye of the sender.
struct ChunkHeader {
  FrameKind kind = FrameKind::kConfirm;
  std::uint64_t length = 0;     ///< Bytes that follow.
  std::uint64_t sequence = 0;   ///< The number of the frame; of a kBegin: of the attempt.
  std::uint64_t message = 0;    ///< The number of the message.
  std::uint64_t offset = 0;     ///< In the message.
  std::uint64_t total = 0;      ///< Bytes of the message.
  std::uint64_t received = 0;   ///< The sender has all chunks of the peer below this number.
  std::uint64_t delivered = 0;  ///< It has put all below this one into posted receives.
  std::uint64_t checksum = 0;   ///< Of the bytes, where the connection has checksums.

  static void fields(auto& wire, auto& self) {
    wire(self.message, self.offset, self.total, self.received, self.delivered);
  }
};
inline constexpr std::size_t kChunkFieldsBytes = 40;
/// The checksum of the chunk's bytes, and one of all before it in the header.
inline constexpr std::size_t kChunkChecksumsBytes = 16;
inline constexpr std::size_t kChunkHeaderBytes =
    kFrameHeadBytes + kChunkFieldsBytes + kChunkChecksumsBytes;

using ChunkHeaderBytes = std::array<std::byte, kChunkHeaderBytes>;

/// The cost of one chunk in a window, beside its bytes: many small messages have a bound too.
inline constexpr std::size_t kChunkCost = 64;

inline constexpr std::size_t kWholeMessage = ~std::size_t{0};

// The sending half: cuts messages into chunks and keeps each until the peer has delivered it.

/// A chunk to send. Its bytes stay as they are until the peer has it.
struct OutgoingChunk {
  ChunkHeader header;
  std::span<const std::byte> bytes;
};

/// Holds copies of the chunks that may have to be sent again. Algorithms overwrite what they sent.
/// Threads: one.
class SendWindow {
 public:
  /// At most `bytes` are held, which is also how far the sender may be ahead of the receiver. 0:
  /// chunks are whole messages where the caller has them, and none is held.
  explicit SendWindow(std::size_t bytes, std::size_t chunk_bytes = kMaxChunkBytes) noexcept
      : capacity_(bytes), chunk_bytes_(chunk_bytes) {}

  /// Returns the number of the message: the first is 0. `data` is not read once it is sent().
  std::uint64_t post(std::span<const std::byte> data, FrameKind kind = FrameKind::kData);
  /// Ends the stream of messages with a goodbye.
  void post_goodbye(FrameKind kind = FrameKind::kLast) { goodbye_ = kind; }
  [[nodiscard]] bool posted_goodbye() const noexcept { return goodbye_.has_value(); }

  /// True once all of the message went into a connection, one time at least.
  [[nodiscard]] bool sent(std::uint64_t number) const noexcept { return sent_ > number; }
  /// True while messages are not sent.
  [[nodiscard]] bool has_posted() const noexcept { return posted_ > sent_; }
  /// True while chunks wait for a connection that takes them.
  [[nodiscard]] bool has_waiting() const noexcept;
  /// True while the peer may lack a chunk, a posted goodbye included.
  [[nodiscard]] bool has_unconfirmed() const noexcept {
    return keeps() && (next_ > received_by_peer_ || owes_goodbye());
  }

  /// The next chunk: first those that were lost. Nothing where there is none, or where the window
  /// is full. `connection`: the connection that takes it. `most`: with a window of 0, its bytes.
  std::optional<OutgoingChunk> take(std::size_t connection = 0, std::size_t most = kWholeMessage);
  /// The chunk went into its connection.
  void written(std::uint64_t sequence);
  /// The connection ended: all chunks that it took and the peer lacks are to be sent again.
  void lose(std::size_t connection = 0);
  /// The state of the peer, as its headers report it. False where that cannot be.
  bool acknowledge(std::uint64_t received, std::uint64_t delivered);

 private:
  struct Kept {
    OutgoingChunk chunk;
    std::size_t connection = 0;
    bool written = false;
  };
  struct Posted {
    std::span<const std::byte> data;
    FrameKind kind{};
    std::size_t cut = 0;  // bytes that are in chunks
  };

  [[nodiscard]] bool keeps() const noexcept { return capacity_ != 0; }
  [[nodiscard]] bool owes_goodbye() const noexcept { return goodbye_ && !goodbye_cut_; }
  [[nodiscard]] bool can_cut() const noexcept;
  [[nodiscard]] bool full() const noexcept {
    return keeps() && used_ + kept_.size() * kChunkCost >= capacity_;
  }
  [[nodiscard]] std::uint64_t first() const noexcept { return next_ - kept_.size(); }
  Kept& kept(std::uint64_t sequence) { return kept_[sequence - first()]; }
  OutgoingChunk cut(std::size_t most);
  OutgoingChunk cut_message(std::size_t most);
  std::span<const std::byte> copy_of(std::span<const std::byte> bytes);
  std::span<std::byte> room(std::size_t most);
  void drop_front();
  void note_sent();

  const std::size_t capacity_;
  const std::size_t chunk_bytes_;
  std::deque<Posted> messages_;  // not wholly cut
  std::uint64_t cut_ = 0;        // number of the message at the front
  std::uint64_t posted_ = 0;
  std::uint64_t sent_ = 0;
  std::optional<FrameKind> goodbye_;
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

// The receiving half: puts chunks into posted receives, keeps those that come before their receive,
// and drops those that it has.

/// The receives of one peer. It takes all that comes, so that acknowledgements are never stuck
/// behind data. The peer's window bounds what it keeps. With a window of 0 there are neither
/// acknowledgements nor early chunks: a message waits in the socket for its receive. Threads: one.
/// Errors of its members: kInternal where the peer sent what cannot be.
class ReceiveWindow {
 public:
  /// `bytes`: of the peer's window. `unposted`: where not 0, messages of at most so many bytes
  /// need no receives, and come over one connection at a time.
  explicit ReceiveWindow(std::size_t bytes, std::size_t unposted = 0) noexcept
      : capacity_(bytes), unposted_(unposted) {}

  /// A message without a receive.
  struct Message {
    FrameKind kind{};
    std::vector<std::byte> bytes;
  };
  /// The next one that has arrived whole.
  std::optional<Message> take();

  /// Returns the number of the message: the first is 0.
  std::uint64_t post(std::span<std::byte> data);
  [[nodiscard]] bool received(std::uint64_t number) const noexcept { return done_ > number; }
  [[nodiscard]] bool has_posted() const noexcept { return !receives_.empty(); }

  /// False while a chunk that begins to arrive is to wait for its receive.
  [[nodiscard]] bool takes() const noexcept { return keeps() || has_posted() || unposted_ != 0; }
  /// True where such a frame may come.
  [[nodiscard]] bool allows(FrameKind kind) const noexcept {
    const bool acknowledges = kind == FrameKind::kLast || kind == FrameKind::kConfirm;
    const bool in_control =
        kind == FrameKind::kLost || kind == FrameKind::kClose || kind == FrameKind::kHeartbeat;
    return unposted_ != 0 || !(in_control || (acknowledges && !keeps()));
  }
  /// The place for the bytes of a numbered chunk that begins to arrive. Empty: the caller holds
  /// them and gives them to end().
  Result<std::span<std::byte>> begin(const ChunkHeader& header);
  /// All bytes of the chunk have arrived; `held` where begin() gave no place.
  Status end(const ChunkHeader& header, std::span<const std::byte> held);

  /// True where the chunk of this number has arrived.
  [[nodiscard]] bool has(std::uint64_t sequence) const {
    return sequence < received_ || beyond_.contains(sequence);
  }
  /// All chunks below this number have arrived; below that one they are in posted receives.
  [[nodiscard]] std::uint64_t received_below() const noexcept { return received_; }
  [[nodiscard]] std::uint64_t delivered_below() const noexcept;
  /// The cost, in the peer's window, of all chunks below delivered_below().
  [[nodiscard]] std::uint64_t delivered_cost() const noexcept { return delivered_cost_; }
  /// True once the peer has left and all that it sent has arrived.
  [[nodiscard]] bool peer_left() const noexcept { return goodbye_ < received_; }
  /// The goodbye of a peer that has left.
  [[nodiscard]] FrameKind goodbye() const noexcept { return goodbye_kind_; }

 private:
  struct Incoming {
    std::span<std::byte> data;
    std::size_t missing = 0;
    bool begun = false;  // a message of zero bytes is a chunk too
  };
  struct Early {
    ChunkHeader header;
    std::vector<std::byte> bytes;
  };

  [[nodiscard]] bool keeps() const noexcept { return capacity_ != 0; }
  [[nodiscard]] bool posted(const ChunkHeader& header) const noexcept {
    return has_message(header.kind) && header.message - done_ < receives_.size();
  }
  Incoming& receive_of(const ChunkHeader& header) { return receives_[header.message - done_]; }
  Status check(const ChunkHeader& header) const;
  Status check_length(const ChunkHeader& header);
  Status make_receive(const ChunkHeader& header);
  Status keep(const ChunkHeader& header, std::span<const std::byte> bytes);
  void note(std::uint64_t sequence);
  void deliver(const ChunkHeader& header);
  void take_early();
  void count_delivered();

  const std::size_t capacity_;
  const std::size_t unposted_;
  std::deque<Incoming> receives_;  // not done; the first has the number done_
  std::deque<Message> own_;        // the receives that were made here, and those not taken before
  std::uint64_t posted_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t received_ = 0;
  std::set<std::uint64_t> beyond_;  // arrived, above a number that has not
  std::map<std::uint64_t, Early> early_;
  std::size_t early_bytes_ = 0;
  std::map<std::uint64_t, std::uint64_t> uncounted_;  // cost of each, delivered beyond the others
  std::uint64_t delivered_cost_ = 0;
  std::uint64_t goodbye_ = ~std::uint64_t{0};  // its number
  FrameKind goodbye_kind_{};
  Status wrong_length_;
};

// The windows of chunks that all connections with one peer share.

/// The chunks of one peer, both ways. Threads: one at a time.
struct PeerWindows {
  /// As SendWindow and ReceiveWindow.
  PeerWindows(std::size_t bytes, std::size_t chunk_bytes, std::size_t unposted = 0) noexcept
      : capacity(bytes), sends(bytes, chunk_bytes), receives(bytes, unposted) {}

  /// True where what was sent can be sent again.
  [[nodiscard]] bool heals() const noexcept { return capacity != 0; }
  [[nodiscard]] bool has_posted() const noexcept {
    return sends.has_posted() || receives.has_posted();
  }
  /// True where neither this rank waits for a chunk nor the peer lacks one.
  [[nodiscard]] bool is_idle() const noexcept { return !has_posted() && !sends.has_unconfirmed(); }

  /// A header with the numbers of this moment.
  [[nodiscard]] ChunkHeader stamped(ChunkHeader header) const noexcept {
    header.received = receives.received_below();
    header.delivered = receives.delivered_below();
    return header;
  }
  /// Takes the numbers of the peer's header. Errors: kInternal where they cannot be.
  Status acknowledge(const ChunkHeader& header) {
    if (!heals() || sends.acknowledge(header.received, header.delivered)) return {};
    return {Code::kInternal, "acknowledged what was not sent"};
  }

  const std::size_t capacity;
  SendWindow sends;
  ReceiveWindow receives;
};

/// One of the connections that share the windows.
struct ConnectionArgs {
  bool dials = false;         ///< This rank makes it, each time.
  std::size_t interface = 0;  ///< Tells it apart.
  bool shares = false;        ///< There are others: they carry what this one does not.
  PeerWindows& windows;       ///< Outlive it.
};

}  // namespace ronde::net
