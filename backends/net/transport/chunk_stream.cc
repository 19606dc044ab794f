#include "backends/net/transport/chunk_stream.h"

#include <algorithm>
#include <array>

namespace ronde::net {
namespace {

iovec piece_of(std::span<const std::byte> bytes) noexcept {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

}  // namespace

void ChunkStream::begin(const ChunkHeader& header, std::span<const std::byte> bytes) {
  out_ = header;
  const auto encoded = encode_wire(header);
  std::copy(encoded.begin(), encoded.end(), head_out_.begin());
  body_out_ = bytes;
  written_ = 0;
  writing_ = true;
}

Result<bool> ChunkStream::write(bool& moved) {
  const std::size_t whole = head_out_.size() + body_out_.size();
  while (written_ < whole) {
    const std::size_t head_done = std::min(written_, head_out_.size());
    const std::array<iovec, 2> pieces{piece_of(std::span(head_out_).subspan(head_done)),
                                      piece_of(body_out_.subspan(written_ - head_done))};
    RONDE_ASSIGN_OR_RETURN(const std::size_t sent, stream_.send(pieces));
    if (sent == 0) return false;
    moved = true;
    written_ += sent;
  }
  RONDE_RETURN_IF_ERROR(stream_.flush());
  writing_ = stream_.has_unsent();
  return !writing_;
}

std::span<std::byte> ChunkStream::rest_of_body() noexcept {
  if (state_ != State::kBody) return {};
  const std::span<std::byte> body = holds_ ? std::span(held_) : place_;
  return body.first(in_.length).subspan(body_got_);
}

/// Reads the rest of the body and the next header at once.
Result<std::size_t> ChunkStream::receive() {
  const auto body = rest_of_body();
  const std::array<iovec, 2> pieces{piece_of(body),
                                    piece_of(std::span(head_in_).subspan(head_got_))};
  RONDE_ASSIGN_OR_RETURN(const std::size_t got, stream_.receive(pieces));
  const std::size_t of_body = std::min(got, body.size());
  body_got_ += of_body;
  head_got_ += got - of_body;
  return got;
}

Result<ChunkStream::Step> ChunkStream::read(bool& moved) {
  while (true) {
    if (state_ == State::kBody && body_got_ == in_.length) {
      state_ = State::kHead;
      return Step::kChunk;
    }
    if (state_ == State::kHead && head_got_ == head_in_.size()) return end_of_head();
    RONDE_ASSIGN_OR_RETURN(const std::size_t got, receive());
    if (got == 0) return Step::kNothing;
    moved = true;
  }
}

Result<ChunkStream::Step> ChunkStream::end_of_head() {
  RONDE_ASSIGN_OR_RETURN(in_, decode_wire<ChunkHeader>(head_in_, "chunk"));
  head_got_ = 0;
  if (in_.kind < ChunkKind::kGreeting || in_.kind > ChunkKind::kStay ||
      in_.length > kMaxChunkBytes || (in_.length != 0 && in_.kind != ChunkKind::kData)) {
    return Status(Code::kInternal, "sent what is no chunk");
  }
  state_ = State::kJudged;
  return Step::kHeader;
}

void ChunkStream::place(std::span<std::byte> place) {
  state_ = State::kBody;
  body_got_ = 0;
  place_ = place;
  holds_ = place.empty();
  if (holds_ && held_.size() < in_.length) held_.resize(in_.length);
}

void ChunkStream::drop_place() {
  if (state_ != State::kBody || holds_) return;
  holds_ = true;
  if (held_.size() < in_.length) held_.resize(in_.length);
}

}  // namespace ronde::net
