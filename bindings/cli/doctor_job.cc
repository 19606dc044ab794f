#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <map>
#include <system_error>
#include <utility>

#include "bindings/cli/command_line.h"
#include "bindings/cli/doctor.h"
#include "bindings/runtime/diagnosis/rank_query.h"
#include "bindings/runtime/diagnosis/service.h"
#include "bindings/runtime/diagnosis/stacks.h"
#include "core/base/join_text.h"
#include "core/base/json.h"
#include "core/base/thread_name.h"
#include "timeline/dump.h"

namespace ronde {
namespace {

constexpr std::size_t kJobLetters = 16;  // of an elastic job's id, before the epoch

std::string describe_worker(const Json& worker) {
  const int rank = worker.at("rank");
  return fmt::format("worker {}, pid {} on {}: {}{}{}\n", worker.at("worker").get<int>(),
                     worker.at("pid").get<int>(), worker.at("host").get<std::string>(),
                     worker.at("state").get<std::string>(),
                     rank >= 0 ? fmt::format(", rank {}", rank) : "",
                     worker.at("leaving").get<bool>() ? ", was asked to leave" : "");
}

std::string describe_gone(const Json& gone) {
  const auto why = gone.at("why").get<std::string>();
  return fmt::format("worker {}: is gone since epoch {}{}{}\n", gone.at("worker").get<int>(),
                     gone.at("epoch").get<int>(), why.empty() ? "" : ": ", why);
}

std::string describe_status(const Json& status) {
  const int epoch = status.at("epoch");
  std::string text = fmt::format("job {}: elastic, epoch {}{}; its launcher: pid {}\n",
                                 status.at("job").get<std::string>(), epoch,
                                 status.at("open").get<bool>() ? ""
                                 : epoch == 0                  ? " (none yet)"
                                                               : " (it has ended)",
                                 status.at("launcher").get<int>());
  if (const auto awaits = status.at("awaits").get<std::string>(); !awaits.empty()) {
    text += fmt::format("the launcher waits for the next epoch: {}\n", awaits);
  }
  for (const Json& worker : status.at("workers")) text += describe_worker(worker);
  for (const Json& gone : status.at("gone")) text += describe_gone(gone);
  return text;
}

}  // namespace

std::vector<LauncherAddress> find_launchers() {
  std::vector<LauncherAddress> launchers;
  for (const std::string& name : diagnosis::listening_names()) {
    if (auto launcher = LauncherAddress::parse(name)) launchers.push_back(std::move(*launcher));
  }
  std::ranges::sort(launchers, {}, &LauncherAddress::job);
  return launchers;
}

std::optional<LauncherAnswer> ask_launcher(const LauncherAddress& launcher, TimePoint deadline) {
  const auto answer =
      diagnosis::ask_sockets({launcher.text()}, diagnosis::kDiagnosticsRequest, deadline).front();
  return answer ? read_status(*answer) : std::nullopt;
}

std::optional<LauncherAnswer> read_status(const std::string& text) try {
  const Json status = parse_json_or_throw(text);
  LauncherAnswer answer;
  answer.text = describe_status(status);
  const int epoch = status.at("epoch");
  if (epoch > 0) answer.job = fmt::format("{}-{}", status.at("job").get<std::string>(), epoch);
  for (const Json& worker : status.at("workers")) {
    answer.workers[worker.at("pid")] = worker.at("worker");
  }
  return answer;
} catch (const Json::exception&) {
  return std::nullopt;
}

int epoch_of(const std::string& job_id) {
  if (job_id.size() < kJobLetters + 2 || job_id[kJobLetters] != '-') return 0;
  const auto is_letter = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  const char* const number = job_id.data() + kJobLetters + 1;
  const char* const end = job_id.data() + job_id.size();
  int epoch = 0;
  const auto [stop, error] = std::from_chars(number, end, epoch);
  const bool plain = std::all_of(job_id.begin(), job_id.begin() + kJobLetters, is_letter);
  return plain && error == std::errc() && stop == end ? epoch : 0;
}

std::string job_of_epoch(const std::string& job_id) {
  return epoch_of(job_id) > 0 ? job_id.substr(0, kJobLetters) : job_id;
}

namespace {

void append_pending(std::string& text, const Dump& dump, const std::vector<RankAnswer>& answers) {
  bool any = false;
  for (const DumpOperation& operation : dump.operations) {
    if (operation.done()) continue;
    any = true;
    text += "  pending: " + describe_pending_operation(operation, dump.steady_ns);
    const std::string missing = diagnosis::awaited_ranks({&dump, &operation}, answers);
    text += missing.empty() ? "\n" : fmt::format("; missing: {}\n", missing);
  }
  if (!any) text += "  pending: nothing\n";
}

/// The functions of a thread, innermost first, up to the interpreter's or the thread library's.
std::vector<std::string> functions_of(const DumpThread& thread) {
  constexpr std::array<std::string_view, 5> kOutside{"pybind11::", "_Py", "Py", "cfunction_",
                                                     "std::thread::"};
  std::vector<std::string> names;
  for (const std::string& frame : thread.frames) {
    std::string name = function_name(frame);
    const auto begins = [&](std::string_view outside) { return name.starts_with(outside); };
    if (std::ranges::any_of(kOutside, begins)) break;
    names.push_back(std::move(name));
  }
  return names;
}

/// True if a thread of Ronde sleeps until there is work for it.
bool is_idle(const DumpThread& thread, const std::vector<std::string>& functions) {
  constexpr std::array<std::string_view, 4> kWaits{
      "ronde::futex_wait", "ronde::BasicWakeWord::", "ronde::Driver::background_",
      "ronde::BundleQueue::thread_main"};
  if (!thread.name.starts_with(kThreadPrefix) || !thread.state.starts_with('S')) return false;
  return std::ranges::all_of(functions, [&](const std::string& function) {
    return !function.starts_with("ronde::") ||
           std::ranges::any_of(kWaits, [&](auto wait) { return function.starts_with(wait); });
  });
}

void append_threads(std::string& text, const Dump& dump) {
  std::vector<std::string> idle;
  for (const DumpThread& thread : dump.threads) {
    const std::vector<std::string> functions = functions_of(thread);
    if (is_idle(thread, functions)) {
      idle.push_back(thread.name);
      continue;
    }
    text += fmt::format("  thread {} \"{}\": {}\n", thread.tid, thread.name, thread.state);
    for (const std::string& function : functions) text += fmt::format("      {}\n", function);
  }
  if (!idle.empty()) text += fmt::format("  idle threads: {}\n", join_text(idle, ", "));
}

void append_script(std::string& text, const Dump& dump) {
  for (const DumpScriptThread& thread : dump.script) {
    text += fmt::format("  Python thread {} \"{}\":\n", thread.tid, thread.name);
    for (const std::string& frame : thread.frames) text += fmt::format("      {}\n", frame);
  }
}

/// "rank 2", or "rank 2 (worker 4)".
std::string label_of(const RankAnswer& answer) {
  const std::string rank = fmt::format("rank {}", answer.who.rank);
  return answer.worker == 0 ? rank : fmt::format("{} (worker {})", rank, answer.worker);
}

/// The line of the rank's main thread; empty if it runs no script.
std::string describe_line(const RankAnswer& answer) {
  if (!answer.dump) return {};
  const Dump& dump = *answer.dump;
  if (!dump.script_error.empty()) {
    return fmt::format("{}: no Python line: {}\n", label_of(answer), dump.script_error);
  }
  if (dump.script.empty()) return {};
  return fmt::format("{}: {}\n", label_of(answer), dump.script.front().line);
}

std::string describe_rank(const RankAnswer& answer, const std::vector<RankAnswer>& answers) {
  if (!answer.dump) {
    return fmt::format("{}, pid {}: {}\n", label_of(answer), answer.who.pid, answer.silence);
  }
  const Dump& dump = *answer.dump;
  std::string text =
      fmt::format("{}, pid {} on {}: {}\n", label_of(answer), dump.pid, dump.host,
                  dump.failure.empty() ? "works" : "the job is broken: " + dump.failure);
  append_pending(text, dump, answers);
  text += fmt::format("  last finished: {}\n", describe_last_finished(dump));
  append_script(text, dump);
  append_threads(text, dump);
  return text;
}

}  // namespace

std::string function_name(std::string_view frame) {
  constexpr std::string_view kUnnamed = "(anonymous namespace)::";
  if (!frame.ends_with(')')) return std::string(frame);  // a file or an address without a name
  std::string name;
  int depth = 0;  // of template arguments
  for (std::size_t i = 0; i < frame.size(); ++i) {
    if (frame.substr(i).starts_with(kUnnamed)) {
      i += kUnnamed.size() - 1;
    } else if (frame[i] == '<' && !name.ends_with("operator")) {
      ++depth;
    } else if (frame[i] == '>' && depth > 0) {
      --depth;
    } else if (depth == 0 && (frame[i] == '(' || frame[i] == '+' || frame[i] == '[')) {
      break;
    } else if (depth == 0) {
      name += frame[i];
    }
  }
  while (name.ends_with(' ')) name.pop_back();
  const std::string shown = name.substr(name.rfind(' ') + 1);
  return shown.empty() ? std::string(frame) : shown;
}

std::string describe_job(const std::vector<RankAnswer>& answers) {
  if (answers.empty()) return {};
  const int size = answers.front().who.size;
  std::string text = fmt::format(
      "job {}: {} ranks\n",
      answers.front().who.job.empty() ? "without a name" : answers.front().who.job, size);
  for (const RankAnswer& answer : answers) text += describe_line(answer);
  for (const RankAnswer& answer : answers) text += describe_rank(answer, answers);
  const auto here = static_cast<int>(answers.size());
  if (here < size) text += fmt::format("on other hosts, to be asked there: {}\n", size - here);
  return text;
}

namespace {

using diagnosis::DiagnosticsAddress;

constexpr std::chrono::seconds kTimeout{3};

std::string job_name(const DiagnosticsAddress& rank) {
  return rank.job.empty() ? fmt::format("pid {}", rank.pid) : job_of_epoch(rank.job);
}

/// A job on this host. Of an elastic job the launcher may be elsewhere, or no epoch may run.
struct RunningJob {
  std::vector<DiagnosticsAddress> ranks;    ///< Of its newest epoch.
  std::optional<LauncherAddress> launcher;  ///< Of an elastic job.
};
using RunningJobs = std::map<std::string, RunningJob>;  // by name

bool begins_with(const std::string& text, const std::string& beginning) {
  return !text.empty() && text.rfind(beginning, 0) == 0;
}

bool is_meant(const RunningJob& job, const std::string& name, const std::string& asked) {
  if (asked.empty() || begins_with(name, asked)) return true;
  if (job.launcher && (fmt::to_string(job.launcher->pid) == asked || job.launcher->owns(asked))) {
    return true;
  }
  return std::ranges::any_of(job.ranks, [&](const DiagnosticsAddress& rank) {
    return fmt::to_string(rank.pid) == asked || begins_with(rank.job, asked);
  });
}

/// Ranks of an epoch before the newest one are about to end.
void keep_newest_epoch(std::vector<DiagnosticsAddress>& ranks) {
  int newest = 0;
  for (const DiagnosticsAddress& rank : ranks) newest = std::max(newest, epoch_of(rank.job));
  std::erase_if(ranks, [&](const auto& rank) { return epoch_of(rank.job) != newest; });
}

RunningJobs find_jobs(const std::string& asked) {
  RunningJobs jobs;
  for (const DiagnosticsAddress& rank : diagnosis::find_ranks())
    jobs[job_name(rank)].ranks.push_back(rank);
  for (const LauncherAddress& launcher : find_launchers()) jobs[launcher.job].launcher = launcher;
  for (auto& [name, job] : jobs) keep_newest_epoch(job.ranks);
  std::erase_if(jobs, [&](const auto& job) { return !is_meant(job.second, job.first, asked); });
  return jobs;
}

std::string list_jobs(const RunningJobs& jobs) {
  std::string text;
  for (const auto& [name, job] : jobs) {
    const int pid = job.launcher ? job.launcher->pid : job.ranks.front().pid;
    const std::string size =
        job.ranks.empty()
            ? "no epoch runs"
            : fmt::format("{} of {} ranks here", job.ranks.size(), job.ranks.front().size);
    text += fmt::format("\n  {}: {}, pid {}: {}", name, size, pid, diagnosis::command_of(pid));
  }
  return text;
}

Status write_dumps(const std::vector<RankAnswer>& answers, const std::string& folder) {
  for (const RankAnswer& answer : answers) {
    if (!answer.dump) continue;
    const std::string path = diagnosis::dump_path(folder, answer.dump->job, answer.dump->rank);
    std::ofstream file(path, std::ios::app);
    if (!(file << answer.text).flush()) return {Code::kUnavailable, "cannot write " + path};
    fmt::print(stderr, "wrote {}\n", path);
  }
  return {};
}

Json pending_of(const Dump& dump, const std::vector<RankAnswer>& answers) {
  Json list = Json::array();
  for (const DumpOperation& operation : dump.operations) {
    if (operation.done()) continue;
    const auto waited = static_cast<double>(dump.steady_ns - operation.submitted_ns);
    list.push_back({{"name", operation.name},
                    {"kind", operation.kind},
                    {"set", operation.set},
                    {"bytes", operation.bytes},
                    {"seconds", waited / 1e9},
                    {"agreed", operation.agreed_ns != 0},
                    {"missing", diagnosis::awaited_ranks({&dump, &operation}, answers)}});
  }
  return list;
}

Json rank_of(const RankAnswer& answer, const std::vector<RankAnswer>& answers) {
  Json rank{{"rank", answer.who.rank},
            {"pid", answer.who.pid},
            {"worker", answer.worker},
            {"silence", answer.dump ? "" : answer.silence}};
  if (!answer.dump) return rank;
  const Dump& dump = *answer.dump;
  rank["host"] = dump.host;
  rank["failure"] = dump.failure;
  rank["line"] = dump.script.empty() ? "" : dump.script.front().line;
  rank["pending"] = pending_of(dump, answers);
  rank["last_finished"] = describe_last_finished(dump);
  return rank;
}

/// The answers as JSON. `launcher`: the answer of an elastic job's launcher; may be empty.
std::string job_json(const std::vector<RankAnswer>& answers, const std::string& launcher) {
  Json ranks = Json::array();
  for (const RankAnswer& answer : answers) ranks.push_back(rank_of(answer, answers));
  return json_document({{"version", 1},
                        {"kind", "job"},
                        {"job", answers.empty() ? "" : answers.front().who.job},
                        {"size", answers.empty() ? 0 : answers.front().who.size},
                        {"launcher", launcher},
                        {"ranks", ranks}});
}

/// How the state of a job is told.
struct JobOutput {
  std::string folder;  ///< Of dumps; empty: none.
  bool json = false;
  std::string launcher = {};  ///< What it says, of an elastic job.
};

/// The ranks' answers, named by the workers that the launcher knows.
Status examine_ranks(const std::vector<DiagnosticsAddress>& ranks,
                     const std::map<int, int>& workers, const JobOutput& output) {
  auto answers = ask_ranks(ranks, diagnosis::kDiagnosticsRequest, now() + kTimeout);
  if (answers.empty()) return {Code::kUnavailable, "the job belongs to another user"};
  for (RankAnswer& answer : answers) {
    const auto worker = workers.find(answer.who.pid);
    if (worker != workers.end()) answer.worker = worker->second;
  }
  fmt::print("{}", output.json ? job_json(answers, output.launcher) : describe_job(answers));
  return output.folder.empty() ? Status() : write_dumps(answers, output.folder);
}

/// The launcher's answer first: it knows which epoch is the newest, and who has died.
Status examine_elastic_job(RunningJob job, JobOutput output) {
  const auto answer = ask_launcher(*job.launcher, now() + kTimeout);
  if (!answer) {
    return {Code::kUnavailable,
            fmt::format("the launcher (pid {}) does not answer, or belongs to another user",
                        job.launcher->pid)};
  }
  output.launcher = answer->text;
  std::erase_if(job.ranks, [&](const auto& rank) { return rank.job != answer->job; });
  if (!output.json) fmt::print("{}", answer->text);
  if (!job.ranks.empty()) return examine_ranks(job.ranks, answer->workers, output);
  if (output.json) fmt::print("{}", job_json({}, output.launcher));
  return {};
}

}  // namespace

Status examine_job(const std::string& job, const std::string& folder, bool json) {
  RONDE_RETURN_IF_ERROR(make_output_folder("--output", folder));
  const RunningJobs jobs = find_jobs(job);
  if (jobs.empty()) {
    return {Code::kUnavailable,
            job.empty() ? std::string("no rank of this user is in a job on this host; a rank "
                                      "is in its job once init() has returned")
                        : fmt::format("no job \"{}\" runs on this host", job)};
  }
  if (jobs.size() > 1) {
    return {Code::kInvalidArgument,
            fmt::format("several jobs run here; say which:{}", list_jobs(jobs))};
  }
  const RunningJob& found = jobs.begin()->second;
  const JobOutput output{.folder = folder, .json = json};
  if (found.launcher) return examine_elastic_job(found, output);
  return examine_ranks(found.ranks, {}, output);
}

Status check_answers(const std::vector<RankAnswer>& answers) {
  for (const RankAnswer& answer : answers) {
    if (!answer.dump) {
      return {Code::kUnavailable,
              fmt::format("{}, pid {}, {}", label_of(answer), answer.who.pid, answer.silence)};
    }
    if (!answer.dump->failure.empty()) {
      return {Code::kUnavailable,
              fmt::format("{}: the job is broken: {}", label_of(answer), answer.dump->failure)};
    }
  }
  return {};
}

Status probe_job(const std::string& job, bool must_run) {
  std::vector<DiagnosticsAddress> ranks;
  for (const auto& [name, found] : find_jobs(job)) {
    ranks.insert(ranks.end(), found.ranks.begin(), found.ranks.end());
  }
  const auto answers = ask_ranks(ranks, diagnosis::kProbeRequest, now() + kTimeout);
  if (answers.empty() && must_run) {
    return {Code::kUnavailable, "no rank of this user is in a job on this host"};
  }
  return check_answers(answers);
}

}  // namespace ronde
