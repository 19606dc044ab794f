// The text of `ronde doctor --job`: pending operations and missing ranks.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bindings/cli/job_doctor.h"
#include "timeline/dump.h"

namespace ronde {
namespace {

/// The ranks that `awaited` waits for: "rank 1, rank 2 (frozen)". Empty if unknown.
std::string missing_ranks(const Awaited& awaited, const std::vector<RankAnswer>& answers) {
  const DumpOperation& operation = *awaited.operation;
  if (operation.name.empty() || operation.agreed_ns != 0) return {};
  std::vector<std::string> missing;
  for (const RankAnswer& answer : answers) {
    if (!answer.dump) {
      missing.push_back(fmt::format("rank {}, which says nothing", answer.who.rank));
    } else if (takes_part(*answer.dump, operation.set) && !has_submitted(*answer.dump, awaited)) {
      missing.push_back(fmt::format("rank {}", answer.who.rank));
    }
  }
  return fmt::format("{}", fmt::join(missing, ", "));
}

void append_pending(std::string& text, const Dump& dump, const std::vector<RankAnswer>& answers) {
  bool any = false;
  for (const DumpOperation& operation : dump.operations) {
    if (operation.done()) continue;
    any = true;
    text += "  pending: " + describe_pending_operation(operation, dump.steady_ns);
    const std::string missing = missing_ranks({&dump, &operation}, answers);
    text += missing.empty() ? "\n" : fmt::format("; missing: {}\n", missing);
  }
  if (!any) text += "  pending: nothing\n";
}

void append_threads(std::string& text, const Dump& dump) {
  for (const DumpThread& thread : dump.threads) {
    text += fmt::format("  thread {} \"{}\": {}\n", thread.tid, thread.name, thread.state);
    for (const std::string& frame : thread.frames) text += fmt::format("      {}\n", frame);
  }
}

std::string describe_rank(const RankAnswer& answer, const std::vector<RankAnswer>& answers) {
  if (!answer.dump) {
    return fmt::format("rank {}, pid {}: {}\n", answer.who.rank, answer.who.pid, answer.silence);
  }
  const Dump& dump = *answer.dump;
  std::string text =
      fmt::format("rank {}, pid {} on {}: {}\n", dump.rank, dump.pid, dump.host,
                  dump.failure.empty() ? "works" : "the job is broken: " + dump.failure);
  append_pending(text, dump, answers);
  text += fmt::format("  last finished: {}\n", describe_last_finished(dump));
  append_threads(text, dump);
  return text;
}

}  // namespace

std::string describe_job(const std::vector<RankAnswer>& answers) {
  if (answers.empty()) return {};
  const int size = answers.front().who.size;
  std::string text = fmt::format(
      "job {}: {} ranks\n",
      answers.front().who.job.empty() ? "without a name" : answers.front().who.job, size);
  for (const RankAnswer& answer : answers) text += describe_rank(answer, answers);
  const auto here = static_cast<int>(answers.size());
  if (here < size) text += fmt::format("on other hosts, to be asked there: {}\n", size - here);
  return text;
}

}  // namespace ronde
