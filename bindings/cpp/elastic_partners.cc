#include "bindings/cpp/elastic_partners.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "bindings/cpp/elastic_agreement.h"
#include "core/base/log.h"

namespace ronde::elastic {

void Partners::on_commit(const EpochNote& place, std::int64_t step) {
  if (states_.due()) send(place, step);
}

void Partners::send(const EpochNote& place, std::int64_t step) {
  if (!hands_over() || job_.size() == 1) return;
  say_once(place);
  std::string own = copies_.pack(Owner::kRank);
  std::vector<std::int64_t> splits(place.workers.size());
  splits[static_cast<std::size_t>(partner_in(place))] = std::ssize(own);
  std::string received;
  std::vector<std::int64_t> sizes;
  try {
    received = exchange("elastic.own", own, splits, &sizes);
  } catch (const Mismatch&) {  // some rank has called join()
    return;
  }
  std::map<WorkerId, std::string> states;
  std::size_t at = 0;
  for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
    const auto size = static_cast<std::size_t>(sizes[rank]);
    states.emplace(place.workers[rank].worker, received.substr(std::exchange(at, at + size), size));
  }
  states_.keep(step, std::move(states));
}

void Partners::say_once(const EpochNote& place) {
  const std::string& host = place.workers[0].host;
  const bool one_host =
      std::ranges::all_of(place.workers, [&](const EpochWorker& one) { return one.host == host; });
  if (!one_host || place.rank != 0 || std::exchange(said_, true)) return;
  log_line(LogLevel::kWarning,
           fmt::format("redundancy: all ranks are on {}; if it is lost, so are the copies of their "
                       "own parts",
                       host));
}

void Partners::settle(const Worker& worker, std::optional<std::int64_t> step, WorkerId restored) {
  const auto ranks =
      gather<OwnFacts>(job_, "elastic.own.start", {worker.holds_state(), restored, 0});
  if (std::ranges::none_of(ranks, &OwnFacts::holds_state)) return;
  states_.begin(step, ranks, worker.place());
  if (hands_over() && step) pass_on();
  if (job_.rank() == 0) report_lost();
}

void Partners::pass_on() {
  const auto offers = gather<OwnOffer>(job_, "elastic.orphans", states_.offer());
  const Handover handover = states_.hand_over(job_.rank(), offers);
  std::string sent;
  std::vector<std::int64_t> splits(offers.size());
  for (const auto& [taker, worker] : handover.given) {
    const std::string& state = states_.state_of(worker);
    splits[static_cast<std::size_t>(taker)] = std::ssize(state);
    sent += state;
  }
  const std::string mine = exchange("elastic.orphans.states", sent, splits);
  if (!mine.empty()) copies_.unpack(Owner::kRank, mine);
  for (const WorkerId worker : handover.left) {
    if (callback_) callback_(copies_.orphan(states_.state_of(worker)));
  }
}

std::string Partners::exchange(const char* name, std::string& bytes,
                               const std::vector<std::int64_t>& splits,
                               std::vector<std::int64_t>* received_splits) {
  const auto given = std::span(reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size());
  const Pending pending = job_.alltoall_async(name, tensor(given), splits);
  const Array output = pending.output();
  if (received_splits != nullptr) *received_splits = pending.received_splits();
  const auto received = output.as<std::uint8_t>();
  return {received.begin(), received.end()};
}

void Partners::report_lost() const {
  const std::vector<WorkerId> lost = states_.lost();
  if (lost.empty()) return;
  const char* const hint = hands_over() ? "" : "; set_redundancy() keeps copies";
  log_line(LogLevel::kWarning,
           fmt::format("own parts are lost of worker{} {}{}", lost.size() == 1 ? "" : "s",
                       fmt::join(lost, ", "), hint));
}

}  // namespace ronde::elastic
