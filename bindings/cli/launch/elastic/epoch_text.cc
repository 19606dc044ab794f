#include "bindings/cli/launch/elastic/epoch_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace ronde {
namespace {

constexpr std::size_t kMostJoiners = 8;

std::string plural(std::size_t count) {
  return fmt::format("{} worker{}", count, count == 1 ? "" : "s");
}

/// "worker 5 joins", "workers 5 and 6 join", "20 workers join".
std::string joiners_text(const std::vector<elastic::WorkerId>& joiners) {
  if (joiners.size() == 1) return fmt::format("worker {} joins", joiners.front());
  if (joiners.size() > kMostJoiners) return plural(joiners.size()) + " join";
  return fmt::format("workers {} and {} join", fmt::join(joiners.begin(), joiners.end() - 1, ", "),
                     joiners.back());
}

}  // namespace

std::string EpochText::begin(const elastic::BeginEpoch& epoch) {
  std::set<elastic::WorkerId> members;
  std::vector<elastic::WorkerId> joiners;
  for (const elastic::EpochWorker& worker : epoch.workers) {
    members.insert(worker.worker);
    if (!members_.contains(worker.worker)) joiners.push_back(worker.worker);
  }
  const std::size_t before = members_.size();
  const std::size_t stay = members.size() - joiners.size();
  members_ = std::move(members);
  std::string text = fmt::format("epoch {}: ", epoch.epoch);
  if (before == 0)
    return text + plural(members_.size()) + (members_.size() == 1 ? " begins" : " begin");
  text += fmt::format("{} of {} {}", stay, plural(before), stay == 1 ? "goes on" : "go on");
  if (!joiners.empty()) text += ", " + joiners_text(joiners);
  return text + (epoch.why.empty() ? "" : "; " + epoch.why);
}

}  // namespace ronde
