#include "bindings/cli/launch/failure_report.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <tuple>

#include "bindings/cli/launch/process.h"
#include "core/base/join_text.h"

namespace ronde {
namespace {

constexpr std::size_t kMostKinds = 4;
constexpr std::size_t kMostTextBytes = 200;

bool failed(const RankEnd& end) { return end.wait_status != 0; }

bool is_consequence(const RankEnd& end) { return end.error && end.error->error.consequence; }

constexpr int kNoCause = 1;  // weight() of ranks that fail because others have, or are asked to end
constexpr int kKilled = 4;

/// How likely the rank is the cause, in the order of is_likelier_cause(). Ranks that report another
/// rank, or were asked to end, are least likely.
int weight(const RankEnd& end) {
  if (end.asked && !(end.error && !is_consequence(end))) return -1;
  if (is_consequence(end)) return 0;
  if (end.asked) return kNoCause;
  if (WIFSIGNALED(end.wait_status)) return kKilled;
  return WEXITSTATUS(end.wait_status) > 1 ? 3 : 2;
}

/// True if `a` is a likelier cause than `b`.
bool is_likelier(const RankEnd& a, const RankEnd& b) {
  return std::tuple(-weight(a), a.failed_at, a.rank) < std::tuple(-weight(b), b.failed_at, b.rank);
}

std::string cut(std::string text) {
  if (text.size() <= kMostTextBytes) return text;
  return text.substr(0, kMostTextBytes) + " ...";
}

std::string who(const RankEnd& end) {
  if (end.pid == 0) return "mpirun";
  const std::string where = end.host.empty() ? "" : " on " + end.host;
  return fmt::format("rank {} (pid {}{})", end.rank, end.pid, where);
}

/// "it exited with status 1, after \"no data\"".
std::string plain_end(const RankEnd& end) {
  const std::string after = end.last_line.empty() || WIFSIGNALED(end.wait_status)
                                ? ""
                                : fmt::format("; its last line of errors: {}", end.last_line);
  return fmt::format("it {}{}", describe_wait_status(end.wait_status), after);
}

std::string first_sentence(const RankEnd& end) {
  const std::string text = end.error ? cut(end.error->error.sentence()) : plain_end(end);
  return fmt::format("rank {} failed first: {}", end.rank, text);
}

/// The first sentence where no rank failed by itself: the first one reports another. `reported`:
/// how that one ended; null: unknown.
std::string report_sentence(const RankEnd& reporter, const RankEnd* reported) {
  const std::string text = cut(reporter.error->error.sentence());
  if (reported == nullptr) return fmt::format("rank {} reports: {}", reporter.rank, text);
  const bool left = text.find(" has left the job") != std::string::npos;
  return fmt::format("rank {} {} first, as rank {} reports: {}", reported->rank,
                     left ? "left" : "failed", reporter.rank, text);
}

/// The remedy for a module that newcomers miss; empty for other errors.
std::string_view advice_for(const RankEnd& end) {
  if (!end.error) return {};
  const std::string& text = end.error->error.text;
  if (text == "ModuleNotFoundError: No module named 'horovod'") {
    return "start the script by horovodrun, or by ronde run --horovod: `import horovod` is Ronde "
           "then";
  }
  if (text.starts_with("ModuleNotFoundError: No module named 'ronde")) {
    return "another Python has Ronde: `ronde run -np 2 script.py`, without `python`, takes that "
           "one";
  }
  return {};
}

/// Says how a rank ended that is not the cause, without its number.
std::string kind_of(const RankEnd& end, const RankEnd* cause) {
  if (end.wait_status == 0) return "ended well";
  if (is_consequence(end)) return "failed in consequence";
  const bool both = end.error && cause != nullptr && cause->error;
  if (both && end.error->error == cause->error->error) return "failed alike";
  if (end.error) return "raised " + cut(end.error->error.sentence());
  if (end.asked) return "ended when asked to";
  return describe_wait_status(end.wait_status);
}

}  // namespace

std::string one_line(const ErrorOutput& error) {
  std::string more = error.trailing > 0 ? fmt::format(" [+{} lines]", error.trailing) : "";
  return error.error.sentence() + more;
}

std::string rank_list(const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < ranks.size();) {
    std::size_t end = begin + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (end - begin > 2) {
      parts.push_back(fmt::format("{}-{}", ranks[begin], ranks[end - 1]));
    } else {
      for (std::size_t i = begin; i < end; ++i) parts.push_back(fmt::to_string(ranks[i]));
    }
    begin = end;
  }
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", join_text(parts, ", "));
}

std::vector<std::string> FailureReport::add(RankEnd end) {
  RankEnd& added = ends_[end.rank] = std::move(end);
  if (!added.error || added.printed) return {};
  const bool cause = first() == &added && !is_consequence(added) && !added.asked &&
                     added.failed_at < added.earlier_error;
  if (added.wait_status == 0) return added.error->full;
  left_out_ = left_out_ || !cause || added.error->left_out > 0;
  if (!cause || is_shown(added)) return {one_line(*added.error)};
  added.printed = true;
  return added.error->shorter;
}

const RankEnd* FailureReport::reported_rank(const RankEnd& reporter) const {
  const auto found = ends_.find(reporter.error->error.of_rank);
  const bool known = found != ends_.end() && !is_consequence(found->second);
  return known ? &found->second : nullptr;
}

bool FailureReport::is_shown(const RankEnd& end) const {
  return std::ranges::any_of(ends_, [&](const auto& entry) {
    const RankEnd& other = entry.second;
    return other.printed && other.error &&
           other.error->error.sentence() == end.error->error.sentence();
  });
}

const RankEnd* FailureReport::first() const {
  const RankEnd* found = nullptr;
  for (const auto& [rank, end] : ends_) {
    if (failed(end) && (found == nullptr || is_likelier(end, *found))) found = &end;
  }
  return found;
}

/// A lost host is as likely a cause as a killed rank. One that is lost while the job is being ended
/// is the cause only where no rank has failed by itself.
const Mishap* FailureReport::first_mishap() const {
  if (mishaps_.empty()) return nullptr;
  const Mishap& found = mishaps_.front();
  const RankEnd* const rank = first();
  if (rank == nullptr || weight(*rank) <= kNoCause) return &found;
  const bool earlier = found.at < rank->failed_at;
  return !found.asked && (earlier || weight(*rank) < kKilled) ? &found : nullptr;
}

std::vector<std::string> FailureReport::missing_traceback() {
  const RankEnd* const cause = first();
  if (cause == nullptr || !cause->error || cause->asked || is_consequence(*cause)) return {};
  if (is_shown(*cause)) return {};
  RankEnd& end = ends_.at(cause->rank);
  return std::exchange(end.printed, true) ? std::vector<std::string>() : end.error->shorter;
}

std::string FailureReport::others(const RankEnd* cause) const {
  std::vector<std::pair<std::string, std::vector<int>>> kinds;
  for (const auto& [rank, end] : ends_) {
    if (&end == cause) continue;
    const std::string kind = kind_of(end, cause);
    auto found = std::ranges::find(kinds, kind, [](const auto& entry) { return entry.first; });
    if (found == kinds.end()) found = kinds.insert(kinds.end(), {kind, {}});
    found->second.push_back(rank);
  }
  std::vector<std::string> parts;
  parts.reserve(kinds.size());
  for (const auto& [kind, ranks] : kinds) parts.push_back(rank_list(ranks) + " " + kind);
  if (parts.size() > kMostKinds) {
    const std::size_t more = parts.size() - kMostKinds;
    parts.resize(kMostKinds);
    parts.push_back(fmt::format("{} more kinds of ends", more));
  }
  return join_text(parts, "; ");
}

/// "ranks 2, 3 were lost with their host".
std::string FailureReport::lost_ranks() const {
  std::vector<int> ranks;
  for (const Mishap& mishap : mishaps_) {
    ranks.insert(ranks.end(), mishap.lost_ranks.begin(), mishap.lost_ranks.end());
  }
  if (ranks.empty()) return {};
  std::ranges::sort(ranks);
  return fmt::format("{} {} lost with {} host", rank_list(ranks),
                     ranks.size() == 1 ? "was" : "were", ranks.size() == 1 ? "its" : "their");
}

std::vector<std::string> FailureReport::summary_of(const Mishap& mishap) const {
  std::string rest = lost_ranks();
  const std::string ended = others(nullptr);
  if (!rest.empty() && !ended.empty()) rest += "; ";
  rest += ended;
  if (rest.empty()) return {};
  std::vector<std::string> sentences{mishap.sentence};
  const RankEnd* const reporter = first();
  if (reporter != nullptr && is_consequence(*reporter)) {
    sentences.push_back(report_sentence(*reporter, nullptr));
  }
  sentences.push_back(rest);
  return sentences;
}

std::vector<std::string> FailureReport::summary() const {
  if (const Mishap* const mishap = first_mishap()) return summary_of(*mishap);
  const RankEnd* const cause = first();
  if (cause == nullptr) return {};
  const bool reports = is_consequence(*cause);
  const RankEnd* const found = reports ? reported_rank(*cause) : cause;
  const RankEnd* const subject = found == nullptr ? cause : found;
  const std::string rest = others(subject);
  std::vector<std::string> sentences{
      reports ? report_sentence(*cause, found) : first_sentence(*cause),
      fmt::format("{} {}{}{}{}", who(*subject), describe_wait_status(subject->wait_status),
                  subject != cause && subject->asked ? " when asked to end" : "",
                  rest.empty() ? "" : "; ", rest)};
  if (const std::string_view advice = advice_for(*cause); !advice.empty()) {
    sentences.emplace_back(advice);
  }
  return sentences;
}

std::string JoinWatch::complaint(const std::vector<std::string>& command) const {
  const auto script =
      std::ranges::find_if(command, [](const std::string& word) { return word.ends_with(".py"); });
  if (joined_ || ended_ < 2 || script == command.end()) return {};
  return fmt::format(
      "no rank has joined the job: {} processes ran {}, each for itself; the script must call "
      "ronde.init(), or hvd.init(), unless its processes meet in another way",
      ended_, std::filesystem::path(*script).filename().string());
}

}  // namespace ronde
