#include "bindings/elastic/partners.h"

#include <algorithm>
#include <map>
#include <utility>

namespace ronde::elastic {

bool Partners::warns_of_one_host(const EpochNote& place) {
  const std::string& host = place.workers[0].host;
  const bool one_host =
      std::ranges::all_of(place.workers, [&](const EpochWorker& one) { return one.host == host; });
  return one_host && place.rank == 0 && !std::exchange(warned_, true);
}

Status Partners::send(Ranks& ranks, const EpochNote& place, std::int64_t step, std::string own) {
  std::vector<std::int64_t> sizes(place.workers.size());
  sizes[static_cast<std::size_t>(partner_in(place))] = std::ssize(own);
  const auto received = ranks.exchange("elastic.own", std::move(own), std::move(sizes));
  if (received.status().code() == Code::kMismatch) return {};  // some rank has called join()
  RONDE_RETURN_IF_ERROR(received.status());
  std::map<WorkerId, std::string> states;
  std::size_t at = 0;
  for (std::size_t rank = 0; rank < place.workers.size(); ++rank) {
    const auto size = static_cast<std::size_t>(received->sizes[rank]);
    states.emplace(place.workers[rank].worker, received->bytes.substr(at, size));
    at += size;
  }
  states_.keep(step, std::move(states));
  return {};
}

Result<SettledStates> Partners::settle(Ranks& ranks, const EpochNote& place,
                                       std::optional<std::int64_t> step, const OwnFacts& mine) {
  RONDE_ASSIGN_OR_RETURN(const auto facts, ranks.gather("elastic.own.start", mine));
  SettledStates settled;
  for (const OwnFacts& one : facts) {
    settled.residual_steps = std::max(settled.residual_steps, one.residual_steps);
  }
  if (std::ranges::none_of(facts, &OwnFacts::holds_state)) return settled;
  states_.begin(step, facts, place);
  if (hands_over() && step) RONDE_RETURN_IF_ERROR(pass_on(ranks, place.rank, settled));
  settled.lost = states_.lost();
  return settled;
}

Status Partners::pass_on(Ranks& ranks, int rank, SettledStates& settled) {
  RONDE_ASSIGN_OR_RETURN(const auto offers, ranks.gather("elastic.orphans", states_.offer()));
  const Handover handover = states_.hand_over(rank, offers);
  std::string sent;
  std::vector<std::int64_t> sizes(offers.size());
  for (const auto& [taker, worker] : handover.given) {
    const std::string& state = states_.state_of(worker);
    sizes[static_cast<std::size_t>(taker)] = std::ssize(state);
    sent += state;
  }
  RONDE_ASSIGN_OR_RETURN(Ranks::Received got, ranks.exchange("elastic.orphans.states",
                                                             std::move(sent), std::move(sizes)));
  if (!got.bytes.empty()) settled.mine = std::move(got.bytes);
  for (const WorkerId worker : handover.left) settled.orphans.push_back(states_.state_of(worker));
  return {};
}

}  // namespace ronde::elastic
