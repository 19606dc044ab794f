#include "backends/net/peer/connection.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ronde::net {

namespace {

/// A new connection that carries no greeting by then is given up.
constexpr std::chrono::seconds kGreetingLimit{3};
/// A request that has brought no connection by then is made again.
constexpr std::chrono::seconds kAskingLimit{2};
/// A request that lasts so long was not made before the connection that is there.
constexpr std::chrono::milliseconds kRequestLasts{200};
constexpr int kRefusals = 3;
/// A path that spoils the same chunk so often is not worth another try.
constexpr int kCorruptions = 10;
constexpr std::chrono::milliseconds kRefusalTime{300};

}  // namespace

void Connection::attach(Link link) {
  const bool asks = link.dialed != args_.dials;
  if (asks) {
    if (args_.dials || !works()) asking_ = Asking{std::move(link), now()};
    return;
  }
  candidates_.push_back(
      {{ChunkStream(std::move(link.stream), heals()), std::move(link.counted)}, now()});
  if (!args_.dials) return;
  GreetedConnection& made = candidates_.back().connection;
  made.attempt = ++last_dialed_;
  made.chunks.begin(args_.windows.stamped({.kind = FrameKind::kBegin, .sequence = made.attempt}),
                    {});
}

bool Connection::wants_connection() const noexcept {
  return needed() && !args_.windows.receives.peer_left() && lacks_connection();
}

bool Connection::is_refused() const noexcept {
  return refusals_ >= kRefusals && now() > refused_since_ + kRefusalTime;
}

void Connection::note_refusal() noexcept {
  if (refusals_++ == 0) refused_since_ = now();
}

bool Connection::has_unread() const noexcept {
  return (exchange_ && exchange_->has_unread()) ||
         std::ranges::any_of(candidates_, [](const Candidate& candidate) {
           return candidate.connection.chunks.has_unread();
         });
}

void Connection::drop_connection() noexcept {
  exchange_.reset();
  args_.windows.sends.lose(args_.interface);
}

void Connection::close() noexcept {
  drop_connection();
  candidates_.clear();
  asking_.reset();
}

Status Connection::progress(bool& more, bool tends) {
  RONDE_RETURN_IF_ERROR(greet());
  if (exchange_) RONDE_RETURN_IF_ERROR(receive(tends, more));
  return progress_sends(more);
}

Status Connection::progress_sends(bool& more) {
  if (!exchange_) return {};
  Status status = exchange_->send(may_take(), more);
  if (!status.ok()) status = read_to_the_end(status);
  if (exchange_ && exchange_->has_ended()) drop_connection();
  return judge(status);
}

/// The peer may have sent more before the connection broke, and may not be there any more to send
/// it again. Returns why it ended.
Status Connection::read_to_the_end(const Status& broken) {
  for (bool more = true; std::exchange(more, false);) {
    const auto stays = exchange_->receive(/*tends=*/true, more);
    if (!stays.ok()) return is_outage(stays.status().code()) ? broken : stays.status();
  }
  return broken;
}

Status Connection::receive(bool tends, bool& more) {
  const auto stays = exchange_->receive(tends, more);
  if (!stays.ok()) return judge(stays.status());
  if (!*stays) drop_connection();
  return {};
}

/// Ok where the connection may be replaced. A peer that agreed to a rest may have closed it.
Status Connection::judge(const Status& error) {
  if (error.ok() || !is_outage(error.code())) return error;
  const bool rests = exchange_->may_be_closed();
  const bool corrupted = error.code() == Code::kCorrupted;
  if ((!rests || corrupted) && (!heals() || (corrupted && !is_worth_another_try()))) return error;
  drop_connection();
  if (!args_.windows.receives.peer_left() && !rests) {
    begin_outage({.began = now(), .reason = error.message(), .corrupted = corrupted});
  }
  return {};
}

/// Something has arrived since a checksum was wrong, or that was not often.
bool Connection::is_worth_another_try() noexcept {
  const std::uint64_t received = args_.windows.receives.received_below();
  if (std::exchange(received_before_, received) != received) corruptions_ = 0;
  return ++corruptions_ < kCorruptions;
}

/// Uses the next new connection whose greeting is there, if there is one.
Status Connection::greet() {
  if (asking_) look_for_departure();
  for (auto it = candidates_.begin(); it != candidates_.end();) {
    const auto greeted = has_greeting(it->connection.chunks);
    if (greeted.ok() && !*greeted) {
      ++it;
      continue;
    }
    if (!greeted.ok() && !is_outage(greeted.status().code())) return greeted.status();
    GreetedConnection connection = std::move(it->connection);
    it = candidates_.erase(it);
    if (greeted.ok()) return use(std::move(connection));
    if (args_.dials) note_refusal();
  }
  return {};
}

/// True once the peer's greeting is there, or where it sends none.
Result<bool> Connection::has_greeting(ChunkStream& chunks) {
  if (args_.dials && !heals()) return true;
  if (chunks.writing()) RONDE_RETURN_IF_ERROR(chunks.write().status());
  bool dry = false;
  RONDE_ASSIGN_OR_RETURN(const auto step, chunks.read(dry));
  if (step == ChunkStream::Step::kNothing) return false;
  if (chunks.incoming().kind == FrameKind::kBegin) return true;
  return Status(Code::kInternal, "sent no greeting");
}

/// The peer closes the connection by which this rank asks only where it has left; a network may cut
/// it.
void Connection::look_for_departure() {
  std::byte byte{};
  const iovec piece{&byte, 1};
  if (asking_->link.stream.receive({&piece, 1}).ok()) return;
  if (!args_.dials) note_refusal();
  asking_.reset();
}

/// Replaces the connection by one that is not older.
Status Connection::use(GreetedConnection connection) {
  const ChunkHeader greeting = connection.chunks.incoming();
  if (!args_.dials) connection.attempt = greeting.sequence;
  if (connection.attempt <= attempt_) return {};
  drop_connection();
  attempt_ = connection.attempt;
  exchange_.emplace(std::move(connection), args_);
  asked_ = false;
  asking_.reset();
  refusals_ = 0;
  if (!heals()) candidates_.clear();  // the dialer has given them up
  RONDE_RETURN_IF_ERROR(args_.windows.acknowledge(greeting));
  outages_.end(now());
  return {};
}

bool Connection::needs_looks() const noexcept {
  return (outages_.lasting() && needed()) || outages_.has_ended() || asking_ ||
         !candidates_.empty() || (exchange_ && exchange_->needs_looks());
}

void Connection::look(TimePoint time) {
  if (!heals()) return;
  look_at_new(time);
  if (!exchange_) return;
  const Duration silence = exchange_->look(time);
  if (exchange_->is_silent()) begin_outage({.began = time - silence, .reason = "fell silent"});
  if (works()) outages_.end(now());
}

/// Gives up what is silent, and believes a peer that has asked for long.
void Connection::look_at_new(TimePoint time) {
  std::erase_if(candidates_, [&](Candidate& candidate) {
    return candidate.silence.look(candidate.connection.chunks.fd(), time) >= kSilentAfter ||
           time > candidate.since + kGreetingLimit;
  });
  if (!asking_) return;
  const TimePoint since = asking_->since;
  // The holder's end would look like a departure.
  if (!args_.dials && time > since + kAskingLimit) asking_.reset();
  if (!args_.dials || !was_connected() || time < since + kRequestLasts) return;
  asked_ = true;
  begin_outage({.began = since, .reason = "broke on the other side"});
}

void Connection::begin_outage(LinkOutage outage) {
  if (outages_.lasting() || !was_connected()) return;
  outages_.begin(std::move(outage));
  if (args_.shares) args_.windows.sends.lose(args_.interface);
}

}  // namespace ronde::net
