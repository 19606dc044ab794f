#include "backends/net/transport/bonded_link.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
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

BondedLink::BondedLink(const BondedLinkArgs& args) noexcept
    : dials_(args.dials),
      card_(args.card),
      shares_(args.shares),
      acknowledge_cost_(args.windows.capacity / 4),
      windows_(args.windows),
      sends_(args.windows.sends),
      receives_(args.windows.receives),
      greetings_(args.dials) {}

/// A header with the numbers of this moment.
ChunkHeader BondedLink::stamped(ChunkHeader header) const noexcept {
  header.received = receives_.received_below();
  header.delivered = receives_.delivered_below();
  return header;
}

void BondedLink::attach(Link link) {
  const bool asks = link.dialed != dials_;
  if (!asks) return greetings_.begin(std::move(link), stamped({.kind = ChunkKind::kGreeting}));
  if (dials_ || !works()) greetings_.ask(std::move(link));
}

bool BondedLink::wants_connection() const noexcept {
  return needed() && !works() && !receives_.peer_left() && !greetings_.under_way();
}

void BondedLink::drop_connection() noexcept {
  chunks_.reset();
  rest_ = {};
  silent_ = false;
  sends_.lose(card_);
}

void BondedLink::close() noexcept {
  drop_connection();
  greetings_.close();
}

Status BondedLink::progress(bool& moved) {
  bool here = false;
  Status status = greet(here);
  if (status.ok() && chunks_) status = judge(receive_chunks(here));
  if (status.ok()) status = progress_sends(here);
  if (here) last_progress_ = now();
  moved = moved || here;
  return status;
}

Status BondedLink::progress_sends(bool& moved) {
  return chunks_ ? judge(send_chunks(moved)) : Status();
}

/// Ok where the connection may be replaced.
Status BondedLink::judge(const Status& error) {
  if (error.ok() || !is_outage(error.code())) return error;
  lose(error.message());
  return {};
}

/// A peer that agreed to a rest may have closed it, whatever this rank has sent since.
void BondedLink::lose(const std::string& reason) {
  const bool rests = rest_.is_agreed();
  drop_connection();
  if (!receives_.peer_left() && !rests) begin_outage(now(), reason);
}

bool BondedLink::may_rest() const noexcept {
  return works() && !rest_.is_under_way() && !windows_.has_posted() && !chunks_->writing() &&
         !greetings_.under_way();
}

Status BondedLink::greet(bool& moved) {
  RONDE_ASSIGN_OR_RETURN(auto connection, greetings_.next(moved));
  return connection ? use(std::move(*connection)) : Status();
}

/// Replaces the connection by one that is not older.
Status BondedLink::use(GreetedConnection connection) {
  const ChunkHeader greeting = connection.chunks.incoming();
  if (greeting.message <= attempt_) return {};
  drop_connection();
  attempt_ = greeting.message;
  chunks_.emplace(std::move(connection.chunks));
  rest_ = RestAgreement(std::move(connection.counted));
  chunks_->place({});
  if (shares_) limit_unsent(chunks_->fd());
  silence_ = {};
  asked_ = false;
  greetings_.settle();
  last_progress_ = now();
  acknowledge_now_ = dials_;  // an acceptor's greeting tells
  if (!dials_) {
    reported_cost_ = receives_.delivered_cost();
    chunks_->begin(stamped({.kind = ChunkKind::kGreeting, .message = attempt_}), {});
  }
  if (!sends_.acknowledge(greeting.received, greeting.delivered)) {
    return {Code::kInternal, "acknowledged what was not sent"};
  }
  end_outage();
  return {};
}

Status BondedLink::send_chunks(bool& moved) {
  if (is_idle()) rest_.answer();
  for (int turn = 0; turn < kTurnChunks; ++turn) {
    if (!chunks_->writing() && !begin_next()) return {};
    wrote_ = true;
    RONDE_ASSIGN_OR_RETURN(const bool done, chunks_->write(moved));
    if (!done) return {};
    const ChunkHeader& header = chunks_->outgoing();
    if (is_numbered(header.kind)) sends_.written(header.sequence);
  }
  return {};
}

/// A quarter of the peer's window at the latest, so that it always goes on.
bool BondedLink::acknowledges() const noexcept {
  return acknowledge_now_ || receives_.delivered_cost() - reported_cost_ >= acknowledge_cost_;
}

bool BondedLink::has_control() const noexcept { return acknowledges() || rest_.has_word(); }

bool BondedLink::has_output() const noexcept {
  return chunks_->writing() || (may_take() && sends_.has_waiting()) || has_control();
}

bool BondedLink::begin_next() {
  const auto chunk = may_take() ? sends_.take(card_) : std::nullopt;
  if (!chunk && !has_control()) return false;
  reported_cost_ = receives_.delivered_cost();
  acknowledge_now_ = false;
  if (chunk) {
    rest_.note_sent();
    chunks_->begin(stamped(chunk->header), chunk->bytes);
  } else {
    chunks_->begin(stamped({.kind = rest_.take_word()}), {});
  }
  return true;
}

Status BondedLink::receive_chunks(bool& moved) {
  for (int turn = 0; turn < kTurnChunks;) {
    RONDE_ASSIGN_OR_RETURN(const auto step, chunks_->read(moved));
    if (step == ChunkStream::Step::kNothing) return {};
    if (step == ChunkStream::Step::kHeader) {
      RONDE_RETURN_IF_ERROR(on_header());
    } else {
      RONDE_RETURN_IF_ERROR(on_chunk());
      if (!chunks_) return {};
      ++turn;
    }
  }
  return {};
}

Status BondedLink::on_header() {
  const ChunkHeader& header = chunks_->incoming();
  if (!sends_.acknowledge(header.received, header.delivered)) {
    return {Code::kInternal, "acknowledged what was not sent"};
  }
  std::span<std::byte> place;
  if (is_numbered(header.kind)) {
    RONDE_ASSIGN_OR_RETURN(place, receives_.begin(header));
  }
  chunks_->place(place);
  return {};
}

Status BondedLink::on_chunk() {
  const ChunkHeader& header = chunks_->incoming();
  if (!is_numbered(header.kind)) {
    if (rest_.take(header.kind, is_idle())) drop_connection();
    return {};
  }
  rest_.note_received();
  const Status ended = receives_.end(header, chunks_->held());
  // Another connection may have brought the goodbye before this chunk.
  if (receives_.peer_left()) acknowledge_now_ = true;
  return ended;
}

bool BondedLink::has_unread() const noexcept {
  return (chunks_ && chunks_->has_unread()) || greetings_.has_unread();
}

bool BondedLink::needs_looks() const noexcept {
  return (outage_ && needed()) || greetings_.needs_looks() || wrote_ || silence_.waiting();
}

void BondedLink::look(TimePoint time) {
  if (const auto since = greetings_.look(time, was_connected())) {
    asked_ = true;
    begin_outage(*since, "broke on the other side");
  }
  wrote_ = false;
  if (!chunks_) return;
  const Duration silence = silence_.look(chunks_->fd(), time);
  silent_ = silence >= kSilentAfter;
  if (silent_) begin_outage(time - silence, "fell silent");
  if (works()) end_outage();
}

void BondedLink::begin_outage(TimePoint since, std::string reason) {
  if (outage_ || !was_connected()) return;
  outage_ = LinkOutage{since, {}, std::move(reason)};
  if (shares_) sends_.lose(card_);
}

void BondedLink::end_outage() {
  if (!outage_) return;
  outage_->ended = now();
  ended_.push_back(*std::exchange(outage_, std::nullopt));
}

}  // namespace ronde::net
