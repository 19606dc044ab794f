#include "backends/net/peer/chunk_exchange.h"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <span>
#include <utility>

#include "core/base/bytes.h"

namespace ronde::net {

namespace {

constexpr std::size_t kLongRead = std::size_t{64} << 10;  // more arrives while so much is copied

iovec piece_of(std::span<const std::byte> bytes) noexcept {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

/// `whole`: it may be a whole message.
bool is_chunk(const ChunkHeader& header, bool whole) noexcept {
  if (has_message(header.kind)) return whole || header.length <= kMaxChunkBytes;
  return header.kind >= FrameKind::kBegin && header.kind <= FrameKind::kClose && header.length == 0;
}

Status no_chunk() { return {Code::kInternal, "sent what is no chunk"}; }

/// The last bytes of a header: its own checksum, of all before.
constexpr std::size_t kHeadChecksumBytes = sizeof(std::uint64_t);
constexpr auto sealed_part(std::span<const std::byte> head) noexcept {
  return head.first(kChunkHeaderBytes - kHeadChecksumBytes);
}
/// The checksums of a header: of its chunk's bytes, and its own.
std::array<std::uint64_t, 2> checksums_in(std::span<const std::byte> head) noexcept {
  std::array<std::uint64_t, 2> sums{};
  static_assert(sizeof(sums) == kChunkChecksumsBytes);
  std::ranges::copy(head.subspan(kChunkHeaderBytes - sizeof(sums), sizeof(sums)),
                    std::as_writable_bytes(std::span(sums)).begin());
  return sums;
}

}  // namespace

void ChunkStream::begin(const ChunkHeader& header, std::span<const std::byte> bytes) {
  out_ = header;
  const auto head = encode_head({.kind = header.kind,
                                 .number = header.sequence,
                                 .length = head_bytes() - kFrameHeadBytes + header.length});
  const auto fields = std::ranges::copy(head, head_out_.begin()).out;
  if (heals_ || checks_) std::ranges::copy(encode_wire(header), fields);
  if (checks_) seal(bytes);
  body_out_ = bytes;
  written_ = 0;
  writing_ = true;
}

/// Puts the checksums into the header that goes out.
void ChunkStream::seal(std::span<const std::byte> bytes) noexcept {
  const auto head = std::span(head_out_);
  const auto sums = head.last<kChunkChecksumsBytes>();
  const auto put = [](std::span<std::byte> where, std::uint64_t sum) {
    std::ranges::copy(std::as_bytes(std::span(&sum, 1)), where.begin());
  };
  put(sums, checksum64(bytes));
  put(sums.last<kHeadChecksumBytes>(), hash64(sealed_part(head)));
}

Result<Written> ChunkStream::write() {
  const auto head = std::span<const std::byte>(head_out_).first(head_bytes());
  RONDE_ASSIGN_OR_RETURN(const Written written, write_on(stream_, head, body_out_, written_));
  writing_ = written != Written::kAll;
  return written;
}

std::span<std::byte> ChunkStream::rest_of_body() noexcept {
  if (state_ != State::kBody) return {};
  return body().subspan(body_got_);
}

/// Reads the rest of the body, and ahead what follows. Only the beginning of a head may be there.
Result<std::size_t> ChunkStream::receive(bool& dry) {
  const auto body = rest_of_body();
  ahead_end_ =
      static_cast<std::size_t>(std::ranges::copy(ahead(), ahead_.begin()).out - ahead_.begin());
  ahead_used_ = 0;
  const bool reaches_head = body.size() <= kTurnBytes;
  const auto room = std::span(ahead_).subspan(reaches_head ? ahead_end_ : ahead_.size());
  const std::array<iovec, 2> pieces{piece_of(body.first(std::min(body.size(), kTurnBytes))),
                                    piece_of(room)};
  RONDE_ASSIGN_OR_RETURN(const std::size_t got, stream_.receive(pieces));
  dry = got < std::min(total_of(pieces), kLongRead);
  if (got != 0) ++reads_;
  const std::size_t of_body = std::min(got, body.size());
  body_got_ += of_body;
  ahead_end_ += got - of_body;
  return got;
}

Result<ChunkStream::Step> ChunkStream::read(bool& dry) {
  while (true) {
    if (state_ == State::kJudged) return Step::kHeader;
    if (state_ == State::kBody && body_got_ == in_.length) return end_of_body();
    if (state_ == State::kHead && ahead().size() >= head_bytes()) return end_of_head();
    if (dry) return Step::kNothing;
    RONDE_ASSIGN_OR_RETURN(const std::size_t got, receive(dry));
    if (got == 0) return Step::kNothing;
    if (!dry && state_ == State::kBody && body_got_ < in_.length) return Step::kPart;
  }
}

Result<ChunkStream::Step> ChunkStream::end_of_body() {
  state_ = State::kHead;
  if (!checks_ || torn_ || checksum64(body()) == in_.checksum) return Step::kChunk;
  return Status(Code::kCorrupted,
                fmt::format("brought wrong data: {} bytes from byte {} of a message of {} on have "
                            "another checksum than was sent",
                            in_.length, in_.offset, in_.total));
}

Result<ChunkStream::Step> ChunkStream::end_of_head() {
  const FrameHead head = decode_head(ahead());
  in_ = {.message = head.number, .total = head.length};
  const auto [of_body, of_head] = checks_ ? checksums_in(ahead()) : std::array<std::uint64_t, 2>{};
  if (checks_ && hash64(sealed_part(ahead())) != of_head) {
    return Status(Code::kCorrupted, "brought a header with a wrong checksum");
  }
  if (heals_ || checks_) {
    const auto fields = ahead().subspan(kFrameHeadBytes, kChunkFieldsBytes);
    RONDE_ASSIGN_OR_RETURN(in_, decode_wire<ChunkHeader>(fields, "chunk"));
  }
  ahead_used_ += head_bytes();
  in_.kind = head.kind;
  in_.sequence = head.number;
  in_.length = head.length - (head_bytes() - kFrameHeadBytes);
  in_.checksum = of_body;
  if (!is_chunk(in_, !heals_ && !checks_)) return no_chunk();
  state_ = State::kJudged;
  return Step::kHeader;
}

void ChunkStream::place(std::span<std::byte> place) {
  if (!awaits_place()) return;
  state_ = State::kBody;
  body_got_ = 0;
  torn_ = false;
  place_ = place;
  holds_ = place.empty();
  if (holds_ && held_.size() < in_.length) held_.resize(in_.length);
  const auto body = rest_of_body();
  body_got_ = std::min(body.size(), ahead().size());
  std::ranges::copy(ahead().first(body_got_), body.begin());
  ahead_used_ += body_got_;
}

void ChunkStream::drop_place() {
  if (state_ != State::kBody || holds_) return;
  holds_ = true;
  torn_ = true;
  if (held_.size() < in_.length) held_.resize(in_.length);
}

bool ChunkStream::drain() {
  std::array<std::byte, 4096> dropped{};
  const iovec piece = piece_of(dropped);
  auto got = stream_.receive({&piece, 1});
  while (got.ok() && *got != 0) got = stream_.receive({&piece, 1});
  int waiting = 0;
  return !got.ok() || ::ioctl(fd(), SIOCOUTQ, &waiting) != 0 || waiting == 0;
}

namespace {

constexpr int kUnsentBytes = 64 << 10;
// Then the other direction has its turn.
constexpr int kTurnChunks = 16;
constexpr int kTurnMessages = 4;

/// Bounds what waits in the socket of a slow interface while a fast one has nothing to do.
void limit_unsent(int fd) noexcept {
  ::setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytes, sizeof(kUnsentBytes));
}

}  // namespace

ChunkExchange::ChunkExchange(GreetedConnection connection, const ConnectionArgs& args)
    : args_(args),
      counted_(std::move(connection.counted)),
      agreement_(args.dials),
      chunks_(std::move(connection.chunks)),
      acknowledge_now_(args.dials && args.windows.heals()) {
  chunks_.place({});
  if (args_.shares) limit_unsent(fd());
  if (args_.dials || !args_.windows.heals()) return;
  reported_cost_ = args_.windows.receives.delivered_cost();
  chunks_.begin(args_.windows.stamped({.kind = FrameKind::kBegin, .sequence = connection.attempt}),
                {});
}

int ChunkExchange::turns() const noexcept {
  const bool cut = args_.windows.heals() || chunks_.most_bytes() != kWholeMessage;
  return cut ? kTurnChunks : kTurnMessages;
}

Status ChunkExchange::send(bool takes, bool& more) {
  if (args_.windows.has_posted()) say(agreement_.use());
  for (int turn = 0; turn < turns(); ++turn) {
    if (!chunks_.writing() && !begin_next(takes)) return {};
    wrote_ = true;
    RONDE_ASSIGN_OR_RETURN(const Written written, chunks_.write());
    if (written == Written::kBlocked) return {};
    if (written == Written::kPart) continue;
    const ChunkHeader& header = chunks_.outgoing();
    if (is_numbered(header.kind)) args_.windows.sends.written(header.sequence);
    ended_ = header.kind == FrameKind::kEndWord && end_word(header.sequence) == EndWord::kClose;
    if (ended_) return {};
  }
  more = more || has_output(takes);
  return {};
}

/// A quarter of the peer's window at the latest, so that it always goes on.
bool ChunkExchange::acknowledges() const noexcept {
  const PeerWindows& windows = args_.windows;
  const std::uint64_t unreported = windows.receives.delivered_cost() - reported_cost_;
  return acknowledge_now_ || heartbeat_ || (windows.heals() && unreported >= windows.capacity / 4);
}

bool ChunkExchange::begin_next(bool takes) {
  PeerWindows& windows = args_.windows;
  OutgoingChunk next;  // an acknowledgement
  const bool has_word = !words_.empty();
  const auto chunk = takes && !has_word && !heartbeat_ && may_take()
                         ? windows.sends.take(args_.interface, chunks_.most_bytes())
                         : std::optional<OutgoingChunk>();
  if (!chunk && !has_word && !acknowledges()) return false;
  if (chunk) next = *chunk;
  if (has_word) {
    next.header = {.kind = FrameKind::kEndWord,
                   .sequence = static_cast<std::uint64_t>(words_.front())};
    words_.pop_front();
  } else if (std::exchange(heartbeat_, false)) {
    next.header.kind = FrameKind::kHeartbeat;
  }
  reported_cost_ = windows.receives.delivered_cost();
  acknowledge_now_ = false;
  chunks_.begin(windows.stamped(next.header), next.bytes);
  return true;
}

Result<bool> ChunkExchange::receive(bool tends, bool& more) {
  bool dry = false;
  for (int turn = 0; turn < turns();) {
    if (!reads(tends)) return true;
    RONDE_ASSIGN_OR_RETURN(const auto step, chunks_.read(dry));
    if (step == ChunkStream::Step::kNothing) return true;
    if (step == ChunkStream::Step::kHeader) {
      RONDE_RETURN_IF_ERROR(on_header());
      continue;
    }
    ++turn;
    if (step == ChunkStream::Step::kPart) continue;
    RONDE_ASSIGN_OR_RETURN(const bool stays, on_chunk());
    if (!stays) return false;
  }
  more = more || reads(tends);
  return true;
}

/// The chunk waits where there is no receive that takes it.
Status ChunkExchange::on_header() {
  const ChunkHeader& header = chunks_.incoming();
  if (!args_.windows.receives.allows(header.kind)) return no_chunk();
  RONDE_RETURN_IF_ERROR(args_.windows.acknowledge(header));
  std::span<std::byte> place;
  if (is_numbered(header.kind)) {
    if (!args_.windows.receives.takes()) return {};
    RONDE_ASSIGN_OR_RETURN(place, args_.windows.receives.begin(header));
  }
  chunks_.place(place);
  return {};
}

/// False: the connection is to be closed.
Result<bool> ChunkExchange::on_chunk() {
  const ChunkHeader& header = chunks_.incoming();
  if (header.kind == FrameKind::kEndWord) return on_word(end_word(header.sequence));
  if (header.kind == FrameKind::kHeartbeat) heard_heartbeat_ = true;
  if (!is_numbered(header.kind)) return true;
  say(agreement_.use());
  const Status ended = args_.windows.receives.end(header, chunks_.held());
  // Another connection may have brought the goodbye before this chunk.
  if (args_.windows.heals() && args_.windows.receives.peer_left()) acknowledge_now_ = true;
  RONDE_RETURN_IF_ERROR(ended);
  return true;
}

/// A connection that is in use again is kept.
Result<bool> ChunkExchange::on_word(EndWord said) {
  if (args_.windows.has_posted()) say(agreement_.use());
  RONDE_ASSIGN_OR_RETURN(const auto answer, agreement_.on_word(said, !args_.windows.is_idle()));
  say(answer);
  return said != EndWord::kClose;
}

void ChunkExchange::say(std::optional<EndWord> word) {
  if (counted_) counted_->set_ending(agreement_.ending());
  if (word) words_.push_back(*word);
}

Duration ChunkExchange::look(TimePoint time) noexcept {
  wrote_ = false;
  const Duration silence = silence_.look(fd(), time);
  silent_ = silence >= kSilentAfter;
  return silence;
}

}  // namespace ronde::net
