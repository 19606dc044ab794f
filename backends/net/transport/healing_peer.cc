#include "backends/net/transport/healing_peer.h"

#include <algorithm>
#include <chrono>

namespace ronde::net {
namespace {

// The lower rank asks for a connection where the higher one has not made it meanwhile.
constexpr std::chrono::seconds kFirstLate{1};
constexpr std::chrono::milliseconds kLateLane{200};
// An outage of one of several cards that lasts so long is worth a warning.
constexpr std::chrono::seconds kLeftOut{1};

}  // namespace

HealingPeer::HealingPeer(int rank, const PeerNeeds& needs)
    : rank_(rank),
      needs_(needs),
      link_(/*dials=*/rank < needs.args.members.rank(), needs.args.window_bytes,
            needs.args.cards.size()) {}

void HealingPeer::take_link(std::size_t card, Link made) {
  if (made.dialed) dialing_.reset(card);
  link_.lane(card).attach(std::move(made));
}

Status HealingPeer::take_failure(std::size_t card, const Status& why) {
  dialing_.reset(card);
  ended_ = why.code() == Code::kRankFailure;
  if (!link_.has_posted()) return {};
  if (!ended_ && goes_on()) {
    leave_out(card, "was not made in time");
    return {};
  }
  return needs_.reports.not_connected(rank_, card, why);
}

Status HealingPeer::connect() {
  for (std::size_t card = 0; card < link_.cards(); ++card) RONDE_RETURN_IF_ERROR(connect(card));
  return {};
}

/// The lower rank asks for a connection once the higher one is late.
Status HealingPeer::connect(std::size_t card) {
  const BondedLink& lane = link_.lane(card);
  if (dialing_.test(card) || ended_ || !lane.wants_connection()) return {};
  if (link_.dials()) return dial(card);
  const auto& outage = lane.outage();
  const TimePoint late = outage ? outage->began + kLateLane : link_.posted_since() + kFirstLate;
  return now() > late ? dial(card) : Status();
}

Status HealingPeer::dial(std::size_t card) {
  const HealingTransportArgs& args = needs_.args;
  const FailedRank& who = args.members.who(rank_);
  RONDE_ASSIGN_OR_RETURN(const Route route, args.route(who, card));
  dialing_.set(card);
  args.manager->dial(needs_.services[card], who.rank, route,
                     link_.lane(card).was_connected() ? kForever : now() + args.timeout);
  return {};
}

Status HealingPeer::progress(bool& moved) {
  std::size_t card = 0;
  const Status status = link_.progress(moved, card);
  RONDE_RETURN_IF_ERROR(needs_.reports.judge(rank_, card, status));
  for (card = 0; card < link_.cards(); ++card) {
    if (!link_.lane(card).is_slowed()) RONDE_RETURN_IF_ERROR(connect(card));
  }
  return {};
}

Status HealingPeer::progress_sends(bool& moved) {
  std::size_t card = 0;
  const Status sent = link_.progress_sends(moved, card);
  return needs_.reports.judge(rank_, card, sent);
}

Status HealingPeer::look(TimePoint time) {
  link_.look(time);
  report_outages();
  RONDE_RETURN_IF_ERROR(check());
  return connect();
}

/// The reasons to wait no longer.
Status HealingPeer::check() const {
  if (!link_.has_posted()) return {};
  if (ended_ || link_.peer_left()) {
    return needs_.args.members.gone(rank_, "is gone: it has left the group");
  }
  if (goes_on()) return {};
  for (std::size_t card = 0; card < link_.cards(); ++card) {
    RONDE_RETURN_IF_ERROR(check_outage(card));
  }
  return {};
}

Status HealingPeer::check_outage(std::size_t card) const {
  const auto& outage = link_.lane(card).outage();
  if (!outage) return {};
  // Transfers that end meanwhile prove nothing where all cards are needed.
  const TimePoint posted = needs_.args.needs_all_cards ? TimePoint() : link_.posted_since();
  if (now() < std::max(outage->began, posted) + needs_.args.limit) return {};
  return needs_.reports.cut_off(rank_, card, *outage);
}

void HealingPeer::report_outages() {
  for (std::size_t card = 0; card < link_.cards(); ++card) {
    BondedLink& lane = link_.lane(card);
    const auto& outage = lane.outage();
    if (outage && now() > outage->began + kLeftOut && goes_on()) leave_out(card, outage->reason);
    if (lane.works()) left_out_.reset(card);
    for (const LinkOutage& ended : lane.take_ended_outages()) {
      needs_.reports.report_outage(rank_, card, ended);
    }
  }
}

/// Warns once of a card that does not work beside one that does.
void HealingPeer::leave_out(std::size_t card, const std::string& reason) {
  if (!left_out_.test(card)) needs_.reports.warn_of_card(rank_, card, reason);
  left_out_.set(card);
}

}  // namespace ronde::net
