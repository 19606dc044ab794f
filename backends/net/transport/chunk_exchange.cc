#include "backends/net/transport/chunk_exchange.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <optional>
#include <span>
#include <utility>

namespace ronde::net {
namespace {

constexpr int kUnsentBytes = 64 << 10;
constexpr int kTurnChunks = 16;  // then the other direction has its turn

/// Bounds what waits in the socket of a slow card while a fast one has nothing to do.
void limit_unsent(int fd) noexcept {
  ::setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytes, sizeof(kUnsentBytes));
}

}  // namespace

ChunkExchange::ChunkExchange(GreetedConnection connection, const Lane& lane)
    : lane_(lane),
      rest_(std::move(connection.counted)),
      chunks_(std::move(connection.chunks)),
      acknowledge_now_(lane.dials) {
  const std::uint64_t attempt = chunks_.incoming().message;
  chunks_.place({});
  if (lane_.shares) limit_unsent(fd());
  if (lane_.dials) return;
  reported_cost_ = lane_.windows.receives.delivered_cost();
  chunks_.begin(lane_.windows.stamped({.kind = ChunkKind::kGreeting, .message = attempt}), {});
}

Status ChunkExchange::send(bool takes, bool& moved) {
  if (lane_.windows.is_idle()) rest_.answer();
  for (int turn = 0; turn < kTurnChunks; ++turn) {
    if (!chunks_.writing() && !begin_next(takes)) return {};
    wrote_ = true;
    RONDE_ASSIGN_OR_RETURN(const bool done, chunks_.write(moved));
    if (!done) return {};
    const ChunkHeader& header = chunks_.outgoing();
    if (is_numbered(header.kind)) lane_.windows.sends.written(header.sequence);
  }
  return {};
}

/// A quarter of the peer's window at the latest, so that it always goes on.
bool ChunkExchange::acknowledges() const noexcept {
  const PeerWindows& windows = lane_.windows;
  return acknowledge_now_ ||
         windows.receives.delivered_cost() - reported_cost_ >= windows.capacity / 4;
}

bool ChunkExchange::begin_next(bool takes) {
  PeerWindows& windows = lane_.windows;
  const auto chunk = takes ? windows.sends.take(lane_.card) : std::nullopt;
  if (!chunk && !has_control()) return false;
  reported_cost_ = windows.receives.delivered_cost();
  acknowledge_now_ = false;
  if (chunk) {
    rest_.note_sent();
    chunks_.begin(windows.stamped(chunk->header), chunk->bytes);
  } else {
    chunks_.begin(windows.stamped({.kind = rest_.take_word()}), {});
  }
  return true;
}

Result<bool> ChunkExchange::receive(bool& moved) {
  for (int turn = 0; turn < kTurnChunks;) {
    RONDE_ASSIGN_OR_RETURN(const auto step, chunks_.read(moved));
    if (step == ChunkStream::Step::kNothing) return true;
    if (step == ChunkStream::Step::kHeader) {
      RONDE_RETURN_IF_ERROR(on_header());
    } else {
      RONDE_ASSIGN_OR_RETURN(const bool stays, on_chunk());
      if (!stays) return false;
      ++turn;
    }
  }
  return true;
}

Status ChunkExchange::on_header() {
  const ChunkHeader& header = chunks_.incoming();
  RONDE_RETURN_IF_ERROR(lane_.windows.acknowledge(header));
  std::span<std::byte> place;
  if (is_numbered(header.kind)) {
    RONDE_ASSIGN_OR_RETURN(place, lane_.windows.receives.begin(header));
  }
  chunks_.place(place);
  return {};
}

/// False: the connection is to be closed.
Result<bool> ChunkExchange::on_chunk() {
  const ChunkHeader& header = chunks_.incoming();
  if (!is_numbered(header.kind)) return !rest_.take(header.kind, lane_.windows.is_idle());
  rest_.note_received();
  const Status ended = lane_.windows.receives.end(header, chunks_.held());
  // Another connection may have brought the goodbye before this chunk.
  if (lane_.windows.receives.peer_left()) acknowledge_now_ = true;
  RONDE_RETURN_IF_ERROR(ended);
  return true;
}

Duration ChunkExchange::look(TimePoint time) noexcept {
  wrote_ = false;
  const Duration silence = silence_.look(fd(), time);
  silent_ = silence >= kSilentAfter;
  return silence;
}

}  // namespace ronde::net
