// One connection with another rank: bytes in order, both ways, plain or encrypted. All connections
// that leave this process for another rank are read and written through it.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "backends/net/connection/socket.h"
#include "backends/net/connection/tls.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde::net {

/// One connected stream socket. No call blocks. Threads: one may send while another receives.
/// Errors of send, flush and receive: kUnavailable where it was closed or broke, kTimeout where the
/// peer's host does not answer, kInvalidArgument where encrypted bytes were changed, replayed,
/// dropped or moved on the way. Their messages complete "the connection ...".
class Stream {
 public:
  Stream() = default;
  /// Sends and receives on `socket`, plain where `tls` is null. `checksums`: both ends want them.
  explicit Stream(FileDescriptor socket, std::unique_ptr<Tls> tls = nullptr,
                  bool checksums = false) noexcept
      : socket_(std::move(socket)), tls_(std::move(tls)), checksums_(checksums) {}
  ~Stream() { close(); }
  Stream(Stream&&) noexcept = default;
  Stream& operator=(Stream&& other) noexcept;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// For poll(); -1 where there is none.
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }
  [[nodiscard]] bool valid() const noexcept { return socket_.valid(); }
  /// True where chunks carry checksums. The records of an encrypted one have tags already.
  [[nodiscard]] bool has_checksums() const noexcept { return checksums_ && !tls_; }

  /// Takes bytes from the start of `pieces`, as many as go now; returns how many. 0: poll for
  /// writing first. The pieces taken may be changed at once.
  Result<std::size_t> send(std::span<const iovec> pieces);

  /// True while bytes that send() took wait for the socket. Then poll for writing and flush().
  [[nodiscard]] bool has_unsent() const noexcept { return tls_ && tls_->has_unsent(); }
  /// Writes such bytes, as many as go now.
  Status flush() { return tls_ ? tls_->flush(fd()) : Status(); }

  /// Fills `pieces` from their start with what has arrived; returns how many bytes. 0: poll for
  /// reading first, or the pieces are empty. The end of the stream is an error.
  Result<std::size_t> receive(std::span<const iovec> pieces);

  /// True while receive() has bytes that poll() does not know of.
  [[nodiscard]] bool has_unread() const noexcept { return tls_ && tls_->has_unread(); }

  /// Closes it. An encrypted one tells the peer that this is its proper end, if the socket takes
  /// that now.
  void close() noexcept;

 private:
  FileDescriptor socket_;
  std::unique_ptr<Tls> tls_;  // null: plain
  bool checksums_ = false;
};

/// Sends all or fails. Blocks. Errors: as Stream; kTimeout at the limit.
Status send_all(Stream& stream, std::span<const std::byte> bytes, const WaitLimit& limit);

/// Receives exactly that many. Blocks. Errors: as Stream; kTimeout at the limit.
Status recv_all(Stream& stream, std::span<std::byte> bytes, const WaitLimit& limit);

}  // namespace ronde::net
