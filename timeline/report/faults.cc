#include "timeline/report/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "core/base/join_text.h"
#include "core/base/os/folders.h"
#include "timeline/dump.h"
#include "timeline/report/summary.h"

namespace ronde::report {
namespace {

namespace fs = std::filesystem;

/// A rank writes at most 64 dumps of at most a few MB each.
constexpr std::uintmax_t kMostBytes = std::uintmax_t{512} << 20;
constexpr std::string_view kHead = "{\"type\":\"dump\"";

/// True if the file is a dump, by its name or its first bytes. A dump may be cut off at once.
bool is_dump(const std::string& path) {
  if (path.ends_with(".jsonl")) return true;
  std::ifstream file(path, std::ios::binary);
  std::string head(kHead.size(), '\0');
  return file.read(head.data(), static_cast<std::streamsize>(head.size())) && head == kHead;
}

std::vector<std::string> dumps_in(const std::string& folder) {
  std::vector<std::string> found;
  for (const fs::path& path : paths_in(folder)) {
    const std::string name = path.filename().string();
    if (name.starts_with("ronde-dump.") && name.ends_with(".jsonl")) {
      found.push_back(path.string());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

Result<std::vector<Dump>> dumps_of(const std::string& path) {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(path, error);
  if (!error && bytes > kMostBytes) {
    return Status(Code::kResourceExhausted,
                  fmt::format("{}: {} bytes are more than a rank's dumps can be ({})", path, bytes,
                              kMostBytes));
  }
  const auto text = read_file(path);
  if (!text.ok()) {
    return Status(Code::kUnavailable,
                  fmt::format("cannot read the dump {}: {}", path, text.status().message()));
  }
  auto dumps = read_dumps(*text);
  if (!dumps.ok()) return dumps.status().with_context(path);
  if (dumps->empty()) {
    return Status(Code::kInvalidArgument, fmt::format("{}: there is no dump in it", path));
  }
  return dumps;
}

/// True if `later` is more informative than the earlier `known`.
bool says_more(const Dump& later, const Dump& known) {
  return !later.failure.empty() || known.failure.empty();
}

}  // namespace

Result<std::vector<std::string>> take_dumps(std::vector<std::string>& paths) {
  std::vector<std::string> dumps;
  std::vector<std::string> traces;
  for (std::string& path : paths) {
    std::error_code error;
    if (fs::is_directory(path, error)) {
      const std::vector<std::string> found = dumps_in(path);
      if (found.empty()) {
        return Status(Code::kInvalidArgument,
                      fmt::format("{}: the folder holds no ronde-dump.*.jsonl", path));
      }
      dumps.insert(dumps.end(), found.begin(), found.end());
    } else {
      (is_dump(path) ? dumps : traces).push_back(std::move(path));
    }
  }
  paths = std::move(traces);
  return dumps;
}

Result<JobDumps> load_dumps(const std::vector<std::string>& paths) {
  std::map<std::string, std::map<int, Dump>> jobs;
  std::pair<std::int64_t, std::string> newest;
  for (const std::string& path : paths) {
    RONDE_ASSIGN_OR_RETURN(std::vector<Dump> dumps, dumps_of(path));
    for (Dump& dump : dumps) {
      newest = std::max(newest, {dump.epoch_ns, dump.job});
      auto& ranks = jobs[dump.job];
      const auto known = ranks.find(dump.rank);
      if (known == ranks.end() || says_more(dump, known->second)) {
        ranks[dump.rank] = std::move(dump);
      }
    }
  }
  JobDumps result;
  for (auto& [job, ranks] : jobs) {
    if (job != newest.second) {
      result.notes.push_back(fmt::format("dumps of another job, {}, were left out: {} wrote last",
                                         job, newest.second));
      continue;
    }
    for (auto& [rank, dump] : ranks) result.ranks.push_back(std::move(dump));
  }
  return result;
}

namespace {

constexpr std::size_t kMostShown = 5;

/// Operations that were pending, or ended by the failure, the earliest first.
std::vector<const DumpOperation*> under_way(const Dump& dump) {
  std::vector<const DumpOperation*> found;
  for (const DumpOperation& operation : dump.operations) {
    if (was_under_way(dump, operation)) found.push_back(&operation);
  }
  std::ranges::sort(found, {}, &DumpOperation::submitted_ns);
  return found;
}

/// The earliest pending operation of any rank but `except`.
std::optional<Awaited> earliest(const JobDumps& dumps, int except = -1) {
  std::optional<Awaited> first;
  std::int64_t when = std::numeric_limits<std::int64_t>::max();
  for (const Dump& dump : dumps.ranks) {
    if (dump.rank == except) continue;
    for (const DumpOperation* operation : under_way(dump)) {
      const std::int64_t since = wall_ns(dump, operation->submitted_ns);
      if (since >= when) continue;
      when = since;
      first = {&dump, operation};
    }
  }
  return first;
}

std::string named(const DumpOperation& operation) {
  return fmt::format("{} {} ({} bytes)", operation.kind, shown_name(operation), operation.bytes);
}

std::string since(const Dump& dump, const DumpOperation& operation) {
  const std::int64_t until = operation.done() ? operation.done_ns : dump.steady_ns;
  return fmt::format("{:.1f} s", static_cast<double>(until - operation.submitted_ns) / 1e9);
}

/// Null without a dump of the rank.
const Dump* dump_of(const JobDumps& dumps, int rank) {
  const auto found = std::ranges::find(dumps.ranks, rank, &Dump::rank);
  return found == dumps.ranks.end() ? nullptr : &*found;
}

std::string capitalised(std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z') {
    text.front() = static_cast<char>(text.front() - 'a' + 'A');
  }
  return text;
}

/// Ranks without a dump.
std::vector<int> silent_ranks(const JobDumps& dumps) {
  std::vector<int> silent;
  for (int rank = 0; rank < dumps.ranks.front().size; ++rank) {
    if (dump_of(dumps, rank) == nullptr) silent.push_back(rank);
  }
  return silent;
}

/// The operation of another rank that waited for `rank`, which left.
std::string waited_for(int rank, const Awaited& awaited) {
  const auto& [dump, operation] = awaited;
  return fmt::format(" Rank {} waited {} for rank {} in {}. Rank {} {}.", dump->rank,
                     since(*dump, *operation), rank, named(*operation), rank,
                     left_in_order(*dump) ? "never submitted it and left" : "left before it ran");
}

/// The operation of the other ranks when `rank` failed.
std::string what_waited(const JobDumps& dumps, int rank) {
  const auto first = earliest(dumps, rank);
  if (!first) return " No other rank had an operation under way.";
  const auto& [dump, operation] = *first;
  if (rank >= 0 && waited_for_leaver(*dump, *operation)) return waited_for(rank, *first);
  const char* how = operation->agreed_ns == 0 ? "waited for other ranks in" : "was moving";
  std::string text = fmt::format(" Rank {} {} {} then, submitted {} before.", dump->rank, how,
                                 named(*operation), since(*dump, *operation));
  if (rank < 0) return text;
  const Dump* own = dump_of(dumps, rank);
  if (own == nullptr) {
    text += fmt::format(" Rank {} left no dump, as one that is killed cannot.", rank);
  } else if (!operation->name.empty() && !has_submitted(*own, *first)) {
    text += fmt::format(" Rank {} itself had not submitted it.", rank);
  }
  return text;
}

/// The rank that most dumps name as failed, or -1.
int failed_rank(const JobDumps& dumps) {
  std::map<int, int> votes;
  for (const Dump& dump : dumps.ranks) {
    if (dump.failed_rank >= 0) ++votes[dump.failed_rank];
  }
  int most = -1;
  for (const auto& [rank, count] : votes) {
    if (most < 0 || count > votes[most]) most = rank;
  }
  return most;
}

std::string advice_on_leaver(int rank) {
  return fmt::format(
      "Rank {} left in order: look at why its script was done before the others. It may have fewer "
      "batches, or another branch of the script may submit the operation.",
      rank);
}

Finding death(const JobDumps& dumps, int rank) {
  Finding finding{.cause = Cause::kFailure, .rank = rank, .share = 1};
  std::size_t agree = 0;
  std::string why;
  bool has_left = false;
  for (const Dump& dump : dumps.ranks) {
    if (dump.failed_rank != rank) continue;
    if (agree++ > 0) continue;
    why = dump.failure;
    has_left = has_leaver(dump) && left_in_order(dump);
  }
  finding.text = fmt::format("The job failed at rank {}: {} ({} of {} dumps say so).{}", rank, why,
                             agree, dumps.ranks.size(), what_waited(dumps, rank));
  finding.advice = has_left ? advice_on_leaver(rank)
                            : fmt::format(
                                  "Look at the output of rank {} and, where it was killed, at the "
                                  "kernel's log (out of memory?).",
                                  rank);
  return finding;
}

/// Ranks with dumps that have not submitted the awaited operation.
std::vector<int> absent(const JobDumps& dumps, const Awaited& awaited) {
  std::vector<int> ranks;
  for (const Dump& dump : dumps.ranks) {
    if (takes_part(dump, awaited.operation->set) && !has_submitted(dump, awaited)) {
      ranks.push_back(dump.rank);
    }
  }
  return ranks;
}

/// An operation that some ranks have not submitted.
struct Wait {
  const DumpOperation* operation = nullptr;
  std::vector<int> missing;
};

/// The rank's earliest such operation.
std::optional<Wait> wait_of(const JobDumps& dumps, const Dump& dump) {
  for (const DumpOperation* operation : under_way(dump)) {
    if (operation->agreed_ns != 0 || operation->name.empty()) continue;
    std::vector<int> missing = absent(dumps, {&dump, operation});
    if (!missing.empty()) return Wait{operation, std::move(missing)};
  }
  return std::nullopt;
}

/// The activity of a rank that delays the others.
std::string own_state(const JobDumps& dumps, const Dump& dump) {
  if (const auto wait = wait_of(dumps, dump)) {
    return fmt::format(
        " It waits itself, in {}, which rank {} has not submitted: the ranks wait for one another "
        "in a different order.",
        named(*wait->operation), join_text(wait->missing, ", "));
  }
  return fmt::format(
      " {}; the last operation it finished was {}.",
      under_way(dump).empty() ? "It was not waiting in Ronde" : "It has other operations under way",
      describe_last_finished(dump));
}

std::optional<Finding> hang(const JobDumps& dumps) {
  for (const Dump& dump : dumps.ranks) {
    const auto wait = wait_of(dumps, dump);
    if (!wait) continue;
    const Dump& first = *dump_of(dumps, wait->missing.front());
    Finding finding{.cause = Cause::kFailure, .share = 1};
    std::string who = fmt::format("Rank {}", join_text(wait->missing, ", "));
    if (wait->missing.size() == 1) {
      finding.rank = first.rank;
      who += fmt::format(" (pid {} on {})", first.pid, first.host);
    }
    finding.text = fmt::format("{} has not submitted {}, in which rank {} has waited for {}.{}",
                               who, named(*wait->operation), dump.rank,
                               since(dump, *wait->operation), own_state(dumps, first));
    finding.advice = "All ranks have to submit the same operations; look at what that one does.";
    return finding;
  }
  return std::nullopt;
}

/// A pending operation that all ranks with dumps had agreed on.
std::optional<Finding> stuck(const JobDumps& dumps) {
  const auto first = earliest(dumps);
  if (!first) return std::nullopt;
  Finding finding{.cause = Cause::kFailure, .share = 1};
  const auto& [dump, operation] = *first;
  finding.text = fmt::format("{} was under way on rank {} for {}", capitalised(named(*operation)),
                             dump->rank, since(*dump, *operation));
  const std::vector<int> silent = silent_ranks(dumps);
  if (silent.size() == 1) finding.rank = silent.front();
  finding.text += silent.empty() ? std::string(".")
                                 : fmt::format(
                                       "; rank {} left no dump and may be what it waits "
                                       "for.",
                                       join_text(silent, ", "));
  finding.advice =
      "Look at where each rank is below, and at the network between the hosts. A running job tells "
      "its lines by `ronde doctor --job`.";
  return finding;
}

/// A failure that names no rank, such as a mismatch or a lost data plane.
std::optional<Finding> other_failure(const JobDumps& dumps) {
  for (const Dump& dump : dumps.ranks) {
    if (dump.failure.empty()) continue;
    Finding finding{.cause = Cause::kFailure, .share = 1};
    finding.text = fmt::format("The job failed: {} (as rank {} says).{}", dump.failure, dump.rank,
                               what_waited(dumps, -1));
    finding.advice =
        "Look the message up in the guide to troubleshooting, and at the output of the rank that "
        "failed first.";
    return finding;
  }
  return std::nullopt;
}

void add_rank(std::string& out, const Dump& dump) {
  out += fmt::format("  rank {}, pid {} on {}, asked by a {}{}\n", dump.rank, dump.pid, dump.host,
                     dump.reason, dump.failure.empty() ? "" : ": " + dump.failure);
  const std::vector<const DumpOperation*> open = under_way(dump);
  for (std::size_t i = 0; i < std::min(open.size(), kMostShown); ++i) {
    out += fmt::format("    under way: {}, for {}{}{}\n", named(*open[i]), since(dump, *open[i]),
                       open[i]->agreed_ns == 0 ? ", waiting for other ranks" : "",
                       describe_leaver(dump, *open[i]));
  }
  if (open.size() > kMostShown) out += fmt::format("    and {} more\n", open.size() - kMostShown);
  if (open.empty()) out += "    under way: nothing\n";
  out += fmt::format("    last finished: {}\n", describe_last_finished(dump));
}

}  // namespace

std::vector<Finding> find_faults(const JobDumps& dumps) {
  std::vector<Finding> findings;
  if (const int rank = failed_rank(dumps); rank >= 0) {
    findings.push_back(death(dumps, rank));
    return findings;
  }
  for (const auto& find : {other_failure, hang, stuck}) {
    if (auto finding = find(dumps)) {
      findings.push_back(std::move(*finding));
      return findings;
    }
  }
  Finding none{.cause = Cause::kNone};
  none.text = "The dumps tell of no failure, and no operation was under way.";
  none.advice = "Look at the output of the ranks: the script may wait for something else.";
  findings.push_back(std::move(none));
  return findings;
}

std::string fault_report(const JobDumps& dumps, const std::vector<Finding>& findings) {
  const Dump& first = dumps.ranks.front();
  std::string out = fmt::format("Dumps of {} of the {} ranks of job {}\n", dumps.ranks.size(),
                                first.size, first.job.empty() ? "without a name" : first.job);
  for (const std::string& note : dumps.notes) wrap(out, "Note: " + note, 6);
  out += "\nWhat went wrong\n";
  for (const Finding& finding : findings) {
    out += "  - ";
    wrap(out, finding.text, 4);
    if (finding.advice.empty()) continue;
    out += "    > ";
    wrap(out, finding.advice, 6);
  }
  out += "\nWhat each rank was doing\n";
  for (const Dump& dump : dumps.ranks) add_rank(out, dump);
  if (const std::vector<int> silent = silent_ranks(dumps); !silent.empty()) {
    out += fmt::format("  no dump of rank {}\n", join_text(silent, ", "));
  }
  return out;
}

}  // namespace ronde::report
