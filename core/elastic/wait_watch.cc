#include "core/elastic/wait_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace ronde::elastic {
namespace {

constexpr std::size_t kMostNamed = 8;

/// "worker 3", "workers 3, 4 and 5", "workers 1, 2, 3, 4, 5, 6, 7, 8 and 20 more".
std::string names_of(const std::vector<WorkerId>& workers) {
  if (workers.size() == 1) return fmt::format("worker {}", workers.front());
  const std::size_t named = std::min(workers.size() - 1, kMostNamed);
  const auto rest = workers.begin() + static_cast<std::ptrdiff_t>(named);
  const std::string last = workers.size() - named == 1
                               ? fmt::format("{}", workers.back())
                               : fmt::format("{} more", workers.size() - named);
  return fmt::format("workers {} and {}", fmt::join(workers.begin(), rest, ", "), last);
}

}  // namespace

std::optional<std::string> WaitWatch::due(const Roster& roster, EpochId epoch, bool closing,
                                          TimePoint time) {
  const std::vector<WorkerId> members = roster.members();
  const bool waits = closing && !members.empty();
  since_ = waits ? std::min(since_, time) : kForever;
  if (told_ || !waits) return std::nullopt;
  if (time - since_ < kLimit) return std::nullopt;
  told_ = true;
  return fmt::format("epoch {} has ended, but {} {} not noticed for {} s: the next epoch waits",
                     epoch, names_of(members), members.size() == 1 ? "has" : "have",
                     kLimit.count());
}

}  // namespace ronde::elastic
