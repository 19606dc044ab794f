// The sealed form of a connection: it seals what is sent, opens what is received, and tells a
// proper end from a cut.
#pragma once

#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "backends/net/link/records.h"
#include "core/base/status.h"

namespace ronde::net {

/// Bytes on their way between a socket and records: taken from the front, added at the back.
class ByteQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return begin_ == end_; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {data_.get() + begin_, end_ - begin_};
  }
  void drop_front(std::size_t bytes) noexcept;
  /// Room at the back, `bytes` at least; it is part of the queue after added().
  std::span<std::byte> room(std::size_t bytes);
  void added(std::size_t bytes) noexcept { end_ += bytes; }

 private:
  std::unique_ptr<std::byte[]> data_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

/// The state of one sealed connection. Its calls are those of Stream, with the socket's descriptor.
/// Threads: as Stream.
class SealedIo {
 public:
  SealedIo(Sealer sealer, Opener opener) noexcept
      : sealer_(std::move(sealer)), opener_(std::move(opener)) {}

  /// Names both ends in errors: "rank 0 on node1 and rank 1 on node2".
  void set_ends(std::string ends) { ends_ = std::move(ends); }

  Result<std::size_t> send(int fd, std::span<const iovec> pieces);
  [[nodiscard]] bool has_unsent() const noexcept { return !output_.empty(); }
  Status flush(int fd);
  Result<std::size_t> receive(int fd, std::span<const iovec> pieces);
  [[nodiscard]] bool has_unread() const noexcept;

  /// Tells the peer that this end closes the connection, if the socket takes it now. A forked child
  /// sends nothing.
  void end(int fd) noexcept;

 private:
  Status seal(RecordKind kind, std::span<const iovec> pieces, std::size_t bytes);
  Status receive_some(int fd, std::span<const iovec> pieces, std::size_t& done, bool& dry);
  Status fill(int fd, bool& dry);
  [[nodiscard]] std::size_t wanted() const noexcept;
  Status open_next(std::span<const iovec> pieces, std::size_t& done);
  Status open_body(std::span<const iovec> pieces, std::size_t& done);
  Status on_head(const RecordHead& head);
  [[nodiscard]] Status refused(std::string_view by) const;

  const pid_t process_ = ::getpid();
  std::string ends_;
  // The sending thread.
  Sealer sealer_;
  ByteQueue output_;
  // The receiving thread.
  Opener opener_;
  ByteQueue input_;
  ByteQueue opened_;                  // what the last record held beyond its receiver's pieces
  std::optional<RecordHead> head_;    // of the record that comes; nothing: its head comes first
  std::size_t read_bytes_ = 4096;     // grows while reads are full
  Status over_;                       // why nothing comes any more
  std::atomic<bool> refuses_{false};  // a record did not open
};

}  // namespace ronde::net
