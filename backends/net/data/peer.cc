#include "backends/net/data/peer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/base/log.h"

namespace ronde::net {

namespace {

/// Small where several interfaces share a message, so that none has much more to do than the
/// others.
constexpr std::size_t kSharedChunkBytes = std::size_t{64} << 10;
// The lower rank asks for a connection where the higher one has not made it again meanwhile.
constexpr std::chrono::milliseconds kLateConnection{200};
// An outage of one of several interfaces that lasts so long is worth a warning.
constexpr std::chrono::seconds kLeftOut{1};

}  // namespace

Peer::Peer(int rank, const PeerNeeds& needs)
    : rank_(rank),
      needs_(needs),
      dials_(rank < members().rank()),
      windows_(needs.args.window_bytes,
               members().interfaces() > 1 ? kSharedChunkBytes : kMaxChunkBytes) {
  const std::size_t interfaces = members().interfaces();
  for (std::size_t interface = 0; interface < interfaces; ++interface) {
    connections_.emplace_back(ConnectionArgs{
        .dials = dials_, .interface = interface, .shares = interfaces > 1, .windows = windows_});
  }
}

bool Peer::any(bool (Connection::*is)() const noexcept) const noexcept {
  return std::ranges::any_of(connections_, is);
}

void Peer::note_post() {
  last_use_ = now();
  if (!windows_.has_posted()) posted_since_ = last_use_;
}

std::uint64_t Peer::post_send(std::span<const std::byte> data) {
  note_post();
  return windows_.sends.post(data);
}

std::uint64_t Peer::post_receive(std::span<std::byte> data) {
  note_post();
  return windows_.receives.post(data);
}

bool Peer::may_end() const noexcept {
  if (ended_ || !was_connected() || any(&Connection::is_refused)) return true;
  // A peer that has left still waits for an acknowledgement.
  if (windows_.receives.peer_left())
    return std::ranges::all_of(connections_, &Connection::is_quiet);
  return !windows_.sends.has_unconfirmed();
}

void Peer::close() noexcept {
  for (Connection& each : connections_) each.close();
}

void Peer::take_link(std::size_t interface, Link made) {
  if (made.dialed) dialing_.reset(interface);
  connections_[interface].attach(std::move(made));
}

Status Peer::take_failure(std::size_t interface, const Status& why) {
  dialing_.reset(interface);
  ended_ = why.code() == Code::kRankFailure;
  if (!windows_.has_posted() || !connections_[interface].wants_connection()) return {};
  if (!ended_ && goes_on()) {
    leave_out(interface, "was not made in time");
    return {};
  }
  return members().not_connected(rank_, why, interface);
}

Status Peer::connect() {
  // A peer that leaves after all transfers ends no wait for another.
  if (windows_.has_posted()) RONDE_RETURN_IF_ERROR(failed_);
  for (std::size_t interface = 0; interface < connections_.size(); ++interface) connect(interface);
  return {};
}

/// The lower rank asks for a connection once the higher one is late.
void Peer::connect(std::size_t interface) {
  const Connection& connection = connections_[interface];
  if (dialing_.test(interface) || ended_ || !connection.wants_connection()) return;
  if (dials_) return dial(interface);
  const auto& outage = connection.outage();
  const TimePoint late =
      outage ? outage->began + kLateConnection : posted_since_ + needs_.args.late_after;
  if (now() > late) dial(interface);
}

void Peer::dial(std::size_t interface) {
  const TcpTransportArgs& args = needs_.args;
  const FailedRank& who = members().who(rank_);
  dialing_.set(interface);
  args.manager->dial(
      needs_.services[interface], who.rank, args.route(who, interface),
      heals() && connections_[interface].was_connected() ? kForever : now() + args.timeout);
}

Status Peer::progress(bool& more) {
  if (!is_active()) return {};
  if (heals() || windows_.has_posted()) return turn(more, /*tends=*/false);
  defer(turn(more, /*tends=*/true));
  return {};
}

Status Peer::turn(bool& more, bool tends) {
  RONDE_RETURN_IF_ERROR(failed_);
  for (std::size_t interface = 0; interface < connections_.size(); ++interface) {
    RONDE_RETURN_IF_ERROR(
        members().judge(rank_, connections_[interface].progress(more, tends), interface));
  }
  // The caller may use a buffer again once its receive is done.
  for (Connection& each : connections_) each.drop_known_chunk();
  for (std::size_t interface = 0; interface < connections_.size(); ++interface) {
    if (!connections_[interface].is_slowed()) connect(interface);
  }
  return {};
}

Status Peer::progress_sends(bool& more) {
  RONDE_RETURN_IF_ERROR(failed_);
  for (std::size_t interface = 0; interface < connections_.size(); ++interface) {
    RONDE_RETURN_IF_ERROR(
        members().judge(rank_, connections_[interface].progress_sends(more), interface));
  }
  return {};
}

void Peer::defer(const Status& error) {
  if (error.ok()) return;
  failed_ = error;
  close();
}

void Peer::tend() {
  if (heals() || windows_.has_posted()) return;
  bool more = true;
  while (std::exchange(more, false) && failed_.ok()) defer(turn(more, /*tends=*/true));
  const auto service = needs_.services.front();
  connections_.front().for_each_idle(
      [&](int fd) { needs_.args.manager->watch(service, fd, POLLIN); });
}

void Peer::rest(std::size_t interface) {
  tend();  // it may have received something
  if (connections_[interface].may_rest()) connections_[interface].rest();
  tend();
}

bool Peer::drain() { return heals() || std::ranges::all_of(connections_, &Connection::drain); }

Status Peer::look(TimePoint time) {
  for (Connection& each : connections_) each.look(time);
  report_outages();
  RONDE_RETURN_IF_ERROR(check());
  return connect();
}

/// The reasons to wait no longer.
Status Peer::check() const {
  if (!windows_.has_posted()) return {};
  if ((ended_ && !any(&Connection::works)) || peer_left()) {
    return members().gone(rank_, "is gone: it has left the group");
  }
  if (goes_on()) return {};
  for (std::size_t interface = 0; interface < connections_.size(); ++interface) {
    RONDE_RETURN_IF_ERROR(check_outage(interface));
  }
  return {};
}

Status Peer::check_outage(std::size_t interface) const {
  const auto& outage = connections_[interface].outage();
  if (!outage) return {};
  // Transfers that end meanwhile prove nothing where all interfaces are needed.
  const TimePoint posted = needs_.args.needs_all_interfaces ? TimePoint() : posted_since_;
  if (now() < std::max(outage->began, posted) + needs_.args.limit) return {};
  return members().gone(
      rank_,
      fmt::format("is cut off: its connection with {}{} {}, and there was none for {:.3g} s ({})",
                  name_of(members().who(members().rank())), members().over(interface),
                  outage->reason, seconds(needs_.args.limit),
                  needs_.args.needs_all_interfaces
                      ? "RONDE_LINK_TIMEOUT_MS; RONDE_RECONNECT_SECONDS lets other interfaces go on"
                      : "RONDE_RECONNECT_SECONDS"));
}

void Peer::report_outages() {
  for (std::size_t interface = 0; interface < connections_.size(); ++interface) {
    Connection& connection = connections_[interface];
    const auto& outage = connection.outage();
    if (outage && now() > outage->began + kLeftOut && goes_on())
      leave_out(interface, outage->reason);
    if (connection.works()) left_out_.reset(interface);
    for (const LinkOutage& ended : connection.take_ended_outages()) {
      report_outage(ended, members().connection_with(rank_, interface), members().who(rank_).rank,
                    needs_.args.observers);
    }
  }
}

/// Warns once of an interface that does not work beside one that does.
void Peer::leave_out(std::size_t interface, const std::string& reason) {
  if (!left_out_.test(interface)) {
    log(LogLevel::kWarning,
        "{} {}: the network interface is left out, and the others carry its share",
        members().connection_with(rank_, interface), reason);
  }
  left_out_.set(interface);
}

}  // namespace ronde::net
