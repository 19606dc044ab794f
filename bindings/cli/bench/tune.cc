#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <thread>
#include <utility>

#include "bindings/cli/bench/contender.h"
#include "bindings/cli/bench/report.h"
#include "bindings/cli/bench/worker.h"
#include "bindings/runtime/groups/group_factory.h"
#include "bindings/runtime/groups/tuning.h"

namespace ronde::bench {
namespace {

constexpr double kWorthChanging = 0.95;  // of the time of the algorithm before: else noise decides

std::vector<std::string_view> candidates(Collective kind) {
  std::vector<std::string_view> names;
  for (const Algorithm& known : algorithms()) {
    if (known.kind == kind) names.push_back(known.name);
  }
  return names;
}

/// True if the collective has several algorithms, chosen by bytes that all ranks know.
bool is_tuned(Collective kind) {
  return candidates(kind).size() > 1 && !traits_of(kind).has_splits();
}

/// Groups of the first ranks of the team, one for each algorithm. Ranks that are in none take part
/// in the measurement and do nothing in it.
class Groups {
 public:
  Groups(Team& team, int ranks) : team_(team), ranks_(ranks) {}

  [[nodiscard]] bool member() const { return team_.rank() < ranks_; }
  [[nodiscard]] int ranks() const noexcept { return ranks_; }

  Result<RawGroup*> group(std::string_view algorithm) {
    auto& group = groups_[std::string(algorithm)];
    if (group == nullptr && member()) {
      std::vector<int> first(static_cast<std::size_t>(ranks_));
      std::iota(first.begin(), first.end(), 0);
      RONDE_ASSIGN_OR_RETURN(
          group, team_.runtime().groups().open(std::move(first), std::string(algorithm)));
    }
    return group.get();
  }

 private:
  Team& team_;
  const int ranks_;
  std::map<std::string, std::unique_ptr<RawGroup>> groups_;
};

Trials trials_for(Team& team, const Groups& groups, Collective kind, std::size_t bytes) {
  Trials trials;
  if (!groups.member()) return trials;
  trials.push_back(std::make_unique<Trial>(
      TrialSpec{.kind = kind, .bytes = bytes, .rank = team.rank(), .size = groups.ranks()}));
  return trials;
}

Result<std::vector<Contender>> contenders_for(Groups& groups, Collective kind, Trials& trials) {
  std::vector<Contender> contenders;
  for (const std::string_view name : candidates(kind)) {
    RONDE_ASSIGN_OR_RETURN(RawGroup* const group, groups.group(name));
    contenders.push_back({std::string(name),
                          [group, &trials] {
                            if (trials.empty()) return Status();
                            return group->run(trials.front()->bundle());
                          },
                          [] { return std::string(); }});
  }
  return contenders;
}

/// The fastest; the algorithm `before` stays where another is hardly faster.
std::size_t fastest(std::span<const Contender> contenders, std::span<const Timing> timings,
                    std::string_view before) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < timings.size(); ++i) {
    if (timings[i].p50_us < timings[best].p50_us) best = i;
  }
  for (std::size_t i = 0; i < timings.size(); ++i) {
    const bool close = timings[best].p50_us > kWorthChanging * timings[i].p50_us;
    if (contenders[i].system == before && close) return i;
  }
  return best;
}

struct Tuner {
  Team& team;
  const Options& options;
  const std::function<void(const std::string&)>& note;

  Result<Winner> winner(Groups& groups, Collective kind, std::size_t bytes,
                        std::string_view before) {
    Trials trials = trials_for(team, groups, kind, bytes);
    RONDE_ASSIGN_OR_RETURN(auto contenders, contenders_for(groups, kind, trials));
    RONDE_RETURN_IF_ERROR(check(team, contenders, trials));
    RONDE_ASSIGN_OR_RETURN(const auto timings,
                           measure(team, contenders, effort_for(bytes, options.repetitions)));
    RONDE_RETURN_IF_ERROR(check(team, contenders, trials));
    const std::size_t best = fastest(contenders, timings, before);
    std::string line =
        fmt::format("{}, {} ranks, {}:", to_string(kind), groups.ranks(), human_bytes(bytes));
    for (std::size_t i = 0; i < timings.size(); ++i) {
      line += fmt::format(" {} {:.1f} us{}", contenders[i].system, timings[i].p50_us,
                          i == best ? " *" : "");
    }
    note(line);
    return Winner{bytes, candidates(kind)[best]};
  }

  Status tune(Groups& groups, Collective kind, std::vector<SelectionRow>& rows) {
    std::vector<Winner> winners;
    for (const std::size_t bytes : options.sizes) {
      RONDE_ASSIGN_OR_RETURN(
          const Winner won,
          winner(groups, kind, bytes, winners.empty() ? "" : winners.back().algorithm));
      winners.push_back(won);
    }
    for (const SelectionRow& row : rows_of(kind, groups.ranks(), winners)) rows.push_back(row);
    return {};
  }
};

bool write(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file.good();
}

}  // namespace

std::vector<SelectionRow> rows_of(Collective kind, int ranks, std::span<const Winner> winners) {
  std::vector<SelectionRow> rows;
  for (std::size_t i = 0; i < winners.size(); ++i) {
    if (i + 1 < winners.size() && winners[i + 1].algorithm == winners[i].algorithm) continue;
    SelectionRow row{.kind = kind, .algorithm = winners[i].algorithm, .max_ranks = ranks};
    if (i + 1 < winners.size()) {
      row.max_bytes = static_cast<std::size_t>(std::sqrt(
          static_cast<double>(winners[i].bytes) * static_cast<double>(winners[i + 1].bytes)));
    }
    rows.push_back(row);
  }
  return rows;
}

std::vector<int> group_sizes(int np) {
  std::vector<int> sizes;
  for (int ranks = 2; ranks < np; ranks *= 2) sizes.push_back(ranks);
  sizes.push_back(np);
  return sizes;
}

Status tune(Team& team, const Options& options,
            const std::function<void(const std::string&)>& note) {
  Tuner tuner{team, options, note};
  std::vector<SelectionRow> rows;
  for (const int ranks : group_sizes(team.size())) {
    Groups groups(team, ranks);
    for (const CollectiveTraits& row : kCollectives) {
      if (is_tuned(row.value)) RONDE_RETURN_IF_ERROR(tuner.tune(groups, row.value, rows));
    }
    RONDE_RETURN_IF_ERROR(team.barrier());
  }
  bool written = true;
  if (team.rank() == 0) {
    const Topology& topology = team.runtime().topology();
    const TuningFacts facts{topology.peers[0].host_name,
                            static_cast<int>(std::thread::hardware_concurrency()), team.size(),
                            team.runtime().config().backend};
    written = write(options.tune, format_tuning(rows, facts));
    if (written)
      note(fmt::format("wrote {}; RONDE_TUNING_FILE={} makes jobs use it", options.tune,
                       options.tune));
  }
  return team.all(written, fmt::format("--tune {}: cannot be written", options.tune));
}

}  // namespace ronde::bench
