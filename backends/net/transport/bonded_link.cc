#include "backends/net/transport/bonded_link.h"

#include <utility>

namespace ronde::net {

void BondedLink::attach(Link link) {
  const bool asks = link.dialed != lane_.dials;
  if (!asks) {
    const ChunkHeader greeting = lane_.windows.stamped({.kind = ChunkKind::kGreeting});
    return greetings_.begin(std::move(link), greeting);
  }
  if (lane_.dials || !works()) greetings_.ask(std::move(link));
}

bool BondedLink::wants_connection() const noexcept {
  return needed() && !works() && !lane_.windows.receives.peer_left() && !greetings_.under_way();
}

void BondedLink::drop_connection() noexcept {
  exchange_.reset();
  lane_.windows.sends.lose(lane_.card);
}

void BondedLink::close() noexcept {
  drop_connection();
  greetings_.close();
}

Status BondedLink::progress(bool& moved) {
  bool here = false;
  Status status = greet(here);
  if (status.ok() && exchange_) status = receive(here);
  if (status.ok()) status = progress_sends(here);
  if (here) last_progress_ = now();
  moved = moved || here;
  return status;
}

Status BondedLink::progress_sends(bool& moved) {
  return exchange_ ? judge(exchange_->send(may_take(), moved)) : Status();
}

Status BondedLink::receive(bool& moved) {
  const auto stays = exchange_->receive(moved);
  if (!stays.ok()) return judge(stays.status());
  if (!*stays) drop_connection();
  return {};
}

/// Ok where the connection may be replaced. A peer that agreed to a rest may have closed it.
Status BondedLink::judge(const Status& error) {
  if (error.ok() || !is_outage(error.code())) return error;
  const bool rests = exchange_->may_be_closed();
  drop_connection();
  if (!lane_.windows.receives.peer_left() && !rests) begin_outage(now(), error.message());
  return {};
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
  exchange_.emplace(std::move(connection), lane_);
  asked_ = false;
  greetings_.settle();
  last_progress_ = now();
  RONDE_RETURN_IF_ERROR(lane_.windows.acknowledge(greeting));
  outages_.end(last_progress_);
  return {};
}

bool BondedLink::needs_looks() const noexcept {
  return (outages_.lasting() && needed()) || outages_.has_ended() || greetings_.needs_looks() ||
         (exchange_ && exchange_->needs_looks());
}

void BondedLink::look(TimePoint time) {
  if (const auto since = greetings_.look(time, was_connected())) {
    asked_ = true;
    begin_outage(*since, "broke on the other side");
  }
  if (!exchange_) return;
  const Duration silence = exchange_->look(time);
  if (exchange_->is_silent()) begin_outage(time - silence, "fell silent");
  if (works()) outages_.end(now());
}

void BondedLink::begin_outage(TimePoint since, std::string reason) {
  if (outages_.lasting() || !was_connected()) return;
  outages_.begin(since, std::move(reason));
  if (lane_.shares) lane_.windows.sends.lose(lane_.card);
}

}  // namespace ronde::net
