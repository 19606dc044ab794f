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
/// Peers acknowledge at once what they receive; a host that computes is no exception.
constexpr std::chrono::seconds kSilentAfter{1};
/// A new connection that carries no greeting by then is given up.
constexpr std::chrono::seconds kGreetingLimit{3};
/// A request that has brought no connection by then is made again.
constexpr std::chrono::seconds kAskingLimit{2};
/// A request that lasts so long was not made before the connection that is there.
constexpr std::chrono::milliseconds kRequestLasts{200};
constexpr int kRefusals = 3;
constexpr std::chrono::milliseconds kRefusalTime{300};

/// Bounds what waits in the socket of a slow card while a fast one has nothing to do.
void limit_unsent(int fd) noexcept {
  ::setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytes, sizeof(kUnsentBytes));
}

bool is_outage(Code code) noexcept { return code == Code::kUnavailable || code == Code::kTimeout; }

}  // namespace

BondedLink::BondedLink(const BondedLinkArgs& args) noexcept
    : dials_(args.dials),
      card_(args.card),
      shares_(args.shares),
      acknowledge_cost_(args.windows.capacity / 4),
      windows_(args.windows),
      sends_(args.windows.sends),
      receives_(args.windows.receives) {}

/// A header with the numbers of this moment.
ChunkHeader BondedLink::stamped(ChunkHeader header) const noexcept {
  header.received = receives_.received_below();
  header.delivered = receives_.delivered_below();
  return header;
}

void BondedLink::attach(Link link) {
  if (link.dialed != dials_) return ask(std::move(link));
  Candidate& made = candidates_.emplace_back(Candidate{ChunkStream(std::move(link.stream)), now()});
  if (dials_) {
    made.chunks.begin(stamped({.kind = ChunkKind::kGreeting, .message = ++last_dialed_}), {});
  }
}

/// Both hold the connection until there is a new one. It ends early where the peer has left.
void BondedLink::ask(Link link) {
  if (dials_ || !works()) asking_ = Asking{std::move(link), now()};
}

bool BondedLink::wants_connection() const noexcept {
  const bool under_way = !candidates_.empty() || (!dials_ && asking_);
  return needed() && !works() && !receives_.peer_left() && !under_way;
}

void BondedLink::close() noexcept {
  chunks_.reset();
  candidates_.clear();
  asking_.reset();
}

bool BondedLink::is_refused() const noexcept {
  return refusals_ >= kRefusals && now() > refused_since_ + kRefusalTime;
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

void BondedLink::lose(const std::string& reason) {
  chunks_.reset();
  silent_ = false;
  sends_.lose(card_);
  if (!receives_.peer_left()) begin_outage(now(), reason);
}

Status BondedLink::greet(bool& moved) {
  for (auto it = candidates_.begin(); it != candidates_.end();) {
    const auto greeted = has_greeting(*it, moved);
    if (greeted.ok() && !*greeted) {
      ++it;
      continue;
    }
    if (!greeted.ok() && !is_outage(greeted.status().code())) return greeted.status();
    Candidate candidate = std::move(*it);
    it = candidates_.erase(it);
    if (greeted.ok()) return use(std::move(candidate));
    if (dials_ && refusals_++ == 0) refused_since_ = now();
  }
  return {};
}

/// True once the peer's greeting is there.
Result<bool> BondedLink::has_greeting(Candidate& candidate, bool& moved) {
  if (candidate.chunks.writing()) RONDE_RETURN_IF_ERROR(candidate.chunks.write(moved).status());
  RONDE_ASSIGN_OR_RETURN(const auto step, candidate.chunks.read(moved));
  if (step == ChunkStream::Step::kNothing) return false;
  if (candidate.chunks.incoming().kind == ChunkKind::kGreeting) return true;
  return Status(Code::kInternal, "sent no greeting");
}

/// Replaces the connection by one that is not older.
Status BondedLink::use(Candidate candidate) {
  ChunkHeader greeting = candidate.chunks.incoming();
  if (greeting.message <= attempt_) return {};
  if (chunks_) sends_.lose(card_);
  attempt_ = greeting.message;
  chunks_.emplace(std::move(candidate.chunks));
  chunks_->place({});
  if (shares_) limit_unsent(chunks_->fd());
  silence_ = {};
  silent_ = asked_ = false;
  asking_.reset();
  refusals_ = 0;
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

bool BondedLink::has_output() const noexcept {
  return chunks_->writing() || (may_take() && sends_.has_waiting()) || acknowledges();
}

bool BondedLink::begin_next() {
  const auto chunk = may_take() ? sends_.take(card_) : std::nullopt;
  if (!chunk && !acknowledges()) return false;
  reported_cost_ = receives_.delivered_cost();
  acknowledge_now_ = false;
  chunks_->begin(stamped(chunk ? chunk->header : ChunkHeader()),
                 chunk ? chunk->bytes : std::span<const std::byte>());
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
  if (!is_numbered(header.kind)) return {};
  const Status ended = receives_.end(header, chunks_->held());
  // Another connection may have brought the goodbye before this chunk.
  if (receives_.peer_left()) acknowledge_now_ = true;
  return ended;
}

bool BondedLink::has_unread() const noexcept {
  return (chunks_ && chunks_->has_unread()) ||
         std::ranges::any_of(
             candidates_, [](const Candidate& candidate) { return candidate.chunks.has_unread(); });
}

bool BondedLink::needs_looks() const noexcept {
  return (outage_ && needed()) || asking_ || !candidates_.empty() || wrote_ || silence_.waiting();
}

void BondedLink::look(TimePoint time) {
  look_at_asking(time);
  look_at_candidates(time);
  wrote_ = false;
  if (!chunks_) return;
  const Duration silence = silence_.look(chunks_->fd(), time);
  silent_ = silence >= kSilentAfter;
  if (silent_) begin_outage(time - silence, "fell silent");
  if (works()) end_outage();
}

/// The peer closes it only where it has left; a network may cut it.
void BondedLink::look_at_asking(TimePoint time) {
  if (!asking_) return;
  std::byte byte{};
  const iovec piece{&byte, 1};
  const bool ended = !asking_->link.stream.receive({&piece, 1}).ok();
  if (ended && !dials_ && refusals_++ == 0) refused_since_ = time;
  if (ended || time > asking_->since + kAskingLimit) return asking_.reset();
  if (!dials_ || !was_connected() || time < asking_->since + kRequestLasts) return;
  asked_ = true;
  begin_outage(asking_->since, "broke on the other side");
}

void BondedLink::look_at_candidates(TimePoint time) {
  std::erase_if(candidates_, [&](Candidate& candidate) {
    return candidate.silence.look(candidate.chunks.fd(), time) >= kSilentAfter ||
           time > candidate.since + kGreetingLimit;
  });
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
