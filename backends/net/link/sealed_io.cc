#include "backends/net/link/sealed_io.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/net/link/socket_io.h"

namespace ronde::net {
namespace {

constexpr std::size_t kBurstBytes = 4 * kMaxPayloadBytes;  // sealed before the socket is asked
constexpr std::size_t kMostRead = 4 * kMaxRecordBytes;
constexpr std::size_t kMostPieces = 8;

/// A part of some pieces.
class Pieces {
 public:
  /// `most` bytes from `from`; fewer where they are in very many pieces.
  Pieces(std::span<const iovec> all, std::size_t from, std::size_t most) {
    for (const iovec& piece : all) {
      const std::size_t skipped = std::min(from, piece.iov_len);
      from -= skipped;
      const std::size_t bytes = std::min(piece.iov_len - skipped, most - bytes_);
      if (bytes == 0 || count_ == parts_.size()) continue;
      parts_[count_++] = {static_cast<std::byte*>(piece.iov_base) + skipped, bytes};
      bytes_ += bytes;
    }
  }
  [[nodiscard]] std::span<const iovec> get() const noexcept { return {parts_.data(), count_}; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::array<iovec, kMostPieces> parts_{};
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
};

iovec piece_of(std::span<const std::byte> bytes) noexcept {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

/// Copies to the pieces; returns how much they take.
std::size_t scatter(std::span<const std::byte> from, std::span<const iovec> pieces) noexcept {
  std::size_t done = 0;
  for (const iovec& piece : pieces) {
    const std::size_t bytes = std::min(piece.iov_len, from.size() - done);
    if (bytes != 0) std::memcpy(piece.iov_base, from.data() + done, bytes);
    done += bytes;
  }
  return done;
}

}  // namespace

void ByteQueue::drop_front(std::size_t bytes) noexcept {
  begin_ += bytes;
  if (begin_ == end_) begin_ = end_ = 0;
}

std::span<std::byte> ByteQueue::room(std::size_t bytes) {
  const std::size_t held = end_ - begin_;
  if (capacity_ - end_ < bytes) {
    if (capacity_ < held + bytes) {
      auto larger = std::make_unique_for_overwrite<std::byte[]>(held + bytes);
      std::copy_n(data_.get() + begin_, held, larger.get());
      data_ = std::move(larger);
      capacity_ = held + bytes;
    } else {
      std::memmove(data_.get(), data_.get() + begin_, held);
    }
    begin_ = 0;
    end_ = held;
  }
  return {data_.get() + end_, capacity_ - end_};
}

Status SealedIo::seal(RecordKind kind, std::span<const iovec> pieces, std::size_t bytes) {
  const std::size_t size = record_bytes(bytes);
  RONDE_RETURN_IF_ERROR(sealer_.seal(kind, pieces, output_.room(size).data()));
  output_.added(size);
  return {};
}

Result<std::size_t> SealedIo::send(int fd, std::span<const iovec> pieces) {
  RONDE_RETURN_IF_ERROR(flush(fd));
  if (has_unsent()) return std::size_t{0};
  const std::size_t most = std::min(total_of(pieces), kBurstBytes);
  std::size_t taken = 0;
  while (taken < most) {
    const Pieces part(pieces, taken, std::min(most - taken, kMaxPayloadBytes));
    RONDE_RETURN_IF_ERROR(seal(RecordKind::kData, part.get(), part.bytes()));
    taken += part.bytes();
  }
  RONDE_RETURN_IF_ERROR(flush(fd));
  return taken;
}

Status SealedIo::flush(int fd) {
  while (has_unsent()) {
    const iovec left = piece_of(output_.bytes());
    RONDE_ASSIGN_OR_RETURN(const std::size_t sent, send_pieces(fd, {&left, 1}));
    if (sent == 0) break;
    output_.drop_front(sent);
  }
  return {};
}

void SealedIo::end(int fd) noexcept {
  if (::getpid() != process_ || !flush(fd).ok() || has_unsent()) return;
  const RecordKind kind = refuses_ ? RecordKind::kRefused : RecordKind::kEnd;
  if (seal(kind, {}, 0).ok()) (void)flush(fd).ok();
}

Result<std::size_t> SealedIo::receive(int fd, std::span<const iovec> pieces) {
  const std::size_t most = total_of(pieces);
  std::size_t done = 0;
  bool dry = false;
  while (done < most && !dry) {
    if (over_.ok()) over_ = receive_some(fd, pieces, done, dry);
    if (over_.ok()) continue;
    if (done == 0) return over_;
    break;
  }
  return done;
}

/// One step: copies, opens or reads.
Status SealedIo::receive_some(int fd, std::span<const iovec> pieces, std::size_t& done, bool& dry) {
  if (!opened_.empty()) {
    const Pieces rest(pieces, done, opened_.bytes().size());
    const std::size_t copied = scatter(opened_.bytes(), rest.get());
    opened_.drop_front(copied);
    done += copied;
    return {};
  }
  if (input_.bytes().size() >= wanted()) return open_next(pieces, done);
  dry = done != 0;  // what there is comes first
  return dry ? Status() : fill(fd, dry);
}

std::size_t SealedIo::wanted() const noexcept {
  return head_ ? body_bytes(head_->payload_bytes) : kHeadBytes;
}

bool SealedIo::has_unread() const noexcept {
  return !opened_.empty() || !over_.ok() || input_.bytes().size() >= wanted();
}

Status SealedIo::fill(int fd, bool& dry) {
  const std::span<std::byte> all = input_.room(std::max(read_bytes_, wanted()));
  const iovec room = piece_of(all.first(std::min(all.size(), kMostRead)));
  RONDE_ASSIGN_OR_RETURN(const Received got, receive_pieces(fd, {&room, 1}));
  if (got.ended) {
    return {Code::kUnavailable,
            "ended without its sealed end: the peer died, or somebody cut the connection"};
  }
  dry = got.bytes == 0;
  input_.added(got.bytes);
  if (got.bytes == room.iov_len) read_bytes_ = std::min(2 * read_bytes_, kMostRead);
  return {};
}

Status SealedIo::open_next(std::span<const iovec> pieces, std::size_t& done) {
  if (head_) return open_body(pieces, done);
  const auto head = opener_.open_head(input_.bytes().first(kHeadBytes));
  if (!head.ok()) {
    refuses_ = true;
    return refused("delivered");
  }
  input_.drop_front(kHeadBytes);
  return on_head(*head);
}

Status SealedIo::on_head(const RecordHead& head) {
  if (head.kind == RecordKind::kEnd) return {Code::kUnavailable, "was closed"};
  if (head.kind == RecordKind::kRefused) return refused("was closed by the peer, as it delivered");
  head_ = head;
  return {};
}

Status SealedIo::open_body(std::span<const iovec> pieces, std::size_t& done) {
  const std::size_t payload = head_->payload_bytes;
  const std::span<const std::byte> body = input_.bytes().first(body_bytes(payload));
  const Pieces rest(pieces, done, payload);
  const bool fits = rest.bytes() == payload;
  const iovec whole = fits ? iovec{} : piece_of(opened_.room(payload).first(payload));
  if (!opener_.open_body(body, fits ? rest.get() : std::span(&whole, 1)).ok()) {
    refuses_ = true;
    return refused("delivered");
  }
  if (fits) {
    done += payload;
  } else {
    opened_.added(payload);
  }
  input_.drop_front(body.size());
  head_.reset();
  return {};
}

Status SealedIo::refused(std::string_view by) const {
  return {Code::kInvalidArgument,
          fmt::format("between {} {} a record that is not as it was sent: it was changed, "
                      "replayed, dropped or moved on the way",
                      ends_, by)};
}

}  // namespace ronde::net
