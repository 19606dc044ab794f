// Ranks that wait for one another without a rank to blame: cores that are taken, or uneven batches.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "core/base/join_text.h"
#include "timeline/report/summary.h"
#include "timeline/report/verdict.h"

namespace ronde::report {
namespace {

constexpr double kContentionShare = 0.10;  // of a step
constexpr double kUnevenShare = 0.03;
constexpr double kBusyShare =
    0.5;  // of a host's cores: below, its ranks cannot be in each other's way
constexpr std::size_t kMostNamed = 3;

/// The cores that a rank's process has used on average in the steps; nothing if it is not known.
std::optional<double> used_cores(const RankTrace& rank, const Analysis& analysis,
                                 std::size_t index) {
  const TotalSample* first = nullptr;
  const TotalSample* last = nullptr;
  for (const TotalSample& sample : rank.cpu) {
    if (sample.time_ns < analysis.steps.front().ranks[index].start_ns) continue;
    if (sample.time_ns > analysis.steps.back().ranks[index].end_ns) break;
    if (first == nullptr) first = &sample;
    last = &sample;
  }
  if (first == last) return std::nullopt;
  return static_cast<double>(last->total_ns - first->total_ns) /
         static_cast<double>(last->time_ns - first->time_ns);
}

/// The ranks of one host, and the time they were runnable without a core.
struct Host {
  const RecordingInfo* info = nullptr;  ///< The recording of its first rank.
  int ranks = 0;
  double step_ns = 0;
  double no_core_ns = 0;
  std::optional<double> used = 0.0;  ///< Cores, by all ranks.

  [[nodiscard]] double share() const noexcept { return step_ns > 0 ? no_core_ns / step_ns : 0; }
  /// The ranks' part of the cores; nothing if it is not known.
  [[nodiscard]] std::optional<double> use() const {
    if (!used || info->cores <= 0) return std::nullopt;
    return *used / info->cores;
  }
  /// True if the ranks outnumber the cores and use much of them.
  [[nodiscard]] bool crowded() const {
    return info->cores > 0 && ranks > info->cores && use().value_or(1) >= kBusyShare;
  }
};

std::vector<Host> hosts_of(const JobTrace& job, const Analysis& analysis) {
  std::map<std::string, Host> hosts;
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) {
    Host& host = hosts[job.ranks[rank].info.boot_id];
    if (host.ranks++ == 0) host.info = &job.ranks[rank].info;
    const Means means = means_of(analysis, rank);
    host.step_ns += means.step_ns;
    host.no_core_ns += means.no_core_ns;
    const auto used = used_cores(job.ranks[rank], analysis, rank);
    host.used = used && host.used ? std::optional(*host.used + *used) : std::nullopt;
  }
  std::vector<Host> list;
  list.reserve(hosts.size());
  for (const auto& [boot, host] : hosts) list.push_back(host);
  return list;
}

std::string sharing(const Host& host) {
  return fmt::format("{} ranks share the {} core{} of {}", host.ranks, host.info->cores,
                     host.info->cores == 1 ? "" : "s", host.info->host);
}

/// "Other work takes the cores of node1, of which the ranks use 6 %".
std::string other_work(const Host& host) {
  const auto use = host.use();
  return fmt::format("Other work takes the cores of {}{}", host.info->host,
                     use ? fmt::format(", of which the ranks use {:.0f} %", percent(*use)) : "");
}

constexpr const char* kFewerRanks =
    "Start no more ranks than there are cores, and give each its share (OMP_NUM_THREADS).";

/// Contention by the kernel's count of time without a core.
std::optional<Finding> measured_contention(const std::vector<Host>& hosts,
                                           const Analysis& analysis) {
  const auto worst = std::ranges::max_element(hosts, {}, &Host::share);
  if (worst->share() < kContentionShare) return std::nullopt;
  const double step_ns = worst->step_ns / worst->ranks;
  Finding finding{.cause = Cause::kContention, .share = worst->share()};
  finding.text = fmt::format(
      "{}: of each {} of {} the training thread stands ready without a core for {} ({:.0f} %).",
      worst->crowded() ? sharing(*worst) : other_work(*worst), unit_of(analysis),
      human_time(step_ns), human_time(finding.share * step_ns), percent(finding.share));
  finding.advice = worst->crowded() ? kFewerRanks
                                    : "See what else runs there (other jobs, threads of the "
                                      "ranks' own libraries: OMP_NUM_THREADS).";
  return finding;
}

/// Contention of ranks that outnumber their cores and wait for one another.
std::optional<Finding> likely_contention(const std::vector<Host>& hosts, const Analysis& analysis,
                                         const Means& means) {
  const auto host = std::ranges::find_if(hosts, &Host::crowded);
  const double share = means.share(Phase::kWaiting) + means.share(Phase::kNegotiation);
  if (host == hosts.end() || share < kContentionShare) return std::nullopt;
  Finding finding{.cause = Cause::kContention, .share = share};
  finding.text = fmt::format(
      "{}: they wait for one another, and to agree, for {} of each {} ({:.0f} %), and none is last "
      "often enough to be named.",
      sharing(*host), human_time(share * means.step_ns), unit_of(analysis), percent(share));
  finding.advice = kFewerRanks;
  return finding;
}

/// A rank, and the share of the steps in which the others waited for it most.
using Turn = std::pair<double, std::size_t>;

/// The most often last ranks first.
std::vector<Turn> turns_of(const Analysis& analysis) {
  std::vector<Turn> turns;
  for (std::size_t i = 0; i < analysis.steps.front().ranks.size(); ++i) turns.push_back({0, i});
  for (const Step& step : analysis.steps) {
    const auto most = std::ranges::max_element(step.blamed_ns);
    if (*most <= 0) continue;
    turns[static_cast<std::size_t>(most - step.blamed_ns.begin())].first +=
        1 / static_cast<double>(analysis.steps.size());
  }
  std::ranges::stable_sort(turns, std::greater(), &Turn::first);
  return turns;
}

/// "rank 0 is last in 48 % of the steps, rank 1 in 45 %".
std::string turns_text(const JobTrace& job, const Analysis& analysis) {
  std::vector<std::string> parts;
  for (const auto& [share, rank] : turns_of(analysis)) {
    if (parts.size() == kMostNamed) break;
    const std::string of = parts.empty() ? fmt::format(" of the {}s", unit_of(analysis)) : "";
    parts.push_back(fmt::format("{} {}in {:.0f} %{}", label_of(job.ranks[rank].info),
                                parts.empty() ? "is last " : "", percent(share), of));
  }
  return join_text(parts, ", ");
}

Finding uneven(const JobTrace& job, const Analysis& analysis, const Means& means) {
  Finding finding{.cause = Cause::kUneven, .share = means.share(Phase::kWaiting)};
  finding.text = fmt::format(
      "Ranks wait for one another for {} of each {} of {} ({:.0f} %), and they are late in turn: "
      "{}.",
      human_time(means.of(Phase::kWaiting)), unit_of(analysis), human_time(means.step_ns),
      percent(finding.share), turns_text(job, analysis));
  if (const std::string awaited = most_awaited(job, analysis); !awaited.empty()) {
    finding.text += fmt::format(" They wait most in \"{}\".", awaited);
  }
  finding.advice =
      "Batches that take unequal time look like this: give all ranks as much work in each step "
      "(batches by length, padding, equal counts). So do other processes on the ranks' cores.";
  return finding;
}

}  // namespace

std::string most_awaited(const JobTrace& job, const Analysis& analysis,
                         std::optional<std::size_t> last) {
  std::map<std::uint32_t, std::int64_t> waited;
  for (const Bundle& bundle : analysis.bundles) {
    if (!last || bundle.last == *last) waited[bundle.span->name] += bundle.skew_ns();
  }
  const auto most =
      std::ranges::max_element(waited, {}, [](const auto& one) { return one.second; });
  const bool any = most != waited.end() && most->second > 0;
  return any ? job.names.text_of(most->first) : std::string();
}

std::vector<Finding> find_waiting(const JobTrace& job, const Analysis& analysis) {
  std::vector<Finding> findings;
  const Means means = means_of(analysis);
  for (const Straggler& straggler : find_stragglers(job, analysis)) {
    findings.push_back(describe(straggler, job, analysis));
  }
  const bool named = !findings.empty();
  const std::vector<Host> hosts = hosts_of(job, analysis);
  if (auto measured = measured_contention(hosts, analysis)) {
    findings.push_back(std::move(*measured));
  }
  if (named) return findings;
  auto likely = findings.empty() ? likely_contention(hosts, analysis, means) : std::nullopt;
  if (likely) {
    findings.push_back(std::move(*likely));
  } else if (job.ranks.size() > 1 && means.share(Phase::kWaiting) >= kUnevenShare) {
    findings.push_back(uneven(job, analysis, means));
  }
  return findings;
}

}  // namespace ronde::report
