// Chunks on one connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "backends/net/link/stream.h"
#include "backends/net/transport/chunk.h"
#include "core/base/status.h"

namespace ronde::net {

/// Writes and reads whole chunks. No call blocks. Threads: one.
/// Errors of write and read: as Stream; kInternal where the peer sent what is no chunk.
class ChunkStream {
 public:
  explicit ChunkStream(Stream stream) noexcept : stream_(std::move(stream)) {}

  [[nodiscard]] int fd() const noexcept { return stream_.fd(); }

  /// Begins a chunk; the one before is written. `bytes` stay as they are until this one is.
  void begin(const ChunkHeader& header, std::span<const std::byte> bytes);
  [[nodiscard]] bool writing() const noexcept { return writing_; }
  [[nodiscard]] const ChunkHeader& outgoing() const noexcept { return out_; }
  /// Writes what goes now; true once the chunk is written.
  Result<bool> write(bool& moved);

  /// The next step of reading.
  enum class Step : std::uint8_t {
    kNothing,  ///< Poll for reading first.
    kHeader,   ///< incoming() is known: say where its bytes go by place().
    kChunk,    ///< All bytes of incoming() are there.
  };
  Result<Step> read(bool& moved);
  [[nodiscard]] const ChunkHeader& incoming() const noexcept { return in_; }
  /// Reads the bytes of the chunk into `place`, or where it is empty into held().
  void place(std::span<std::byte> place);
  /// Reads the rest of the chunk that is on its way into held(): its place is not this stream's any
  /// more.
  void drop_place();
  [[nodiscard]] std::span<const std::byte> held() const noexcept {
    return holds_ ? std::span<const std::byte>(held_).first(in_.length)
                  : std::span<const std::byte>();
  }
  /// True where a sleep in poll() would miss bytes that have arrived.
  [[nodiscard]] bool has_unread() const noexcept { return stream_.has_unread(); }

 private:
  enum class State : std::uint8_t { kHead, kJudged, kBody };

  Result<std::size_t> receive();
  Result<Step> end_of_head();
  std::span<std::byte> rest_of_body() noexcept;

  Stream stream_;
  // The chunk on its way out.
  bool writing_ = false;
  ChunkHeader out_;
  ChunkHeaderBytes head_out_{};
  std::span<const std::byte> body_out_;
  std::size_t written_ = 0;  // of both
  // The chunk on its way in.
  State state_ = State::kHead;
  ChunkHeader in_;
  ChunkHeaderBytes head_in_{};
  std::size_t head_got_ = 0;
  std::span<std::byte> place_;
  std::vector<std::byte> held_;
  bool holds_ = false;
  std::size_t body_got_ = 0;
};

}  // namespace ronde::net
