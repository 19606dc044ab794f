#include "timeline/report/epoch_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/join_text.h"
#include "core/ports/executor.h"
#include "timeline/reading/job_clock.h"

namespace ronde::report {

Result<RankLoader*> EpochLoader::begin(RecordingInfo info, const std::string& path,
                                       std::size_t file) {
  const auto [at, added] = ranks_.try_emplace(info.rank);
  Rank& rank = at->second;
  if (!added && goes_on(rank.trace.info, info)) {
    rank.trace.info.part = info.part;
    rank.file = file;
    return rank.loader.get();
  }
  if (!added) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: rank {} has a trace already: {}; give the traces of one job, or "
                              "its merged trace",
                              path, info.rank, rank.trace.path));
  }
  rank.file = file;
  if (info.part > 1) {
    job_.notes.push_back(
        fmt::format("The trace of {} begins with its part {}: those before are "
                    "not there.",
                    label_of(info), info.part));
  }
  rank.trace.info = std::move(info);
  rank.trace.path = path;
  rank.loader = std::make_unique<RankLoader>(job_, rank.trace);
  return rank.loader.get();
}

void EpochLoader::end_file(std::size_t file, bool truncated) {
  for (auto& [number, rank] : ranks_) {
    if (rank.file == file) rank.trace.truncated = truncated;
  }
}

Result<JobTrace> EpochLoader::finish(bool tail) {
  RONDE_RETURN_IF_ERROR(check_job());
  take_notes();
  forget_cut_ends(tail);
  return std::move(job_);
}

Status EpochLoader::check_job() const {
  const RankTrace& first = ranks_.begin()->second.trace;
  for (const auto& [number, rank] : ranks_) {
    const RecordingInfo& info = rank.trace.info;
    if (info.job == first.info.job && info.size == first.info.size) continue;
    return {Code::kInvalidArgument,
            fmt::format("{}: these are traces of several jobs: rank {} is of a job of {} ranks "
                        "(\"{}\"), rank {} in {} of one of {} (\"{}\")",
                        rank.trace.path, info.rank, info.size, info.job, first.info.rank,
                        first.path, first.info.size, first.info.job)};
  }
  return {};
}

void EpochLoader::take_notes() {
  std::vector<std::int64_t> missing;
  const int size = ranks_.begin()->second.trace.info.size;
  for (int rank = 0; rank < size; ++rank) {
    if (!ranks_.contains(rank)) missing.push_back(rank);
  }
  if (!missing.empty()) {
    job_.notes.push_back(
        fmt::format("No trace of rank {} was given: who waited for it is not known.",
                    join_text(missing, ", ")));
  }
  for (auto& [number, rank] : ranks_) {
    rank.loader->finish();
    note(rank.trace);
    job_.ranks.push_back(std::move(rank.trace));
  }
}

void EpochLoader::note(RankTrace& trace) {
  const std::string label = label_of(trace.info);
  if (trace.truncated) {
    job_.notes.push_back(
        fmt::format("The end of {} is missing ({} was cut short).", trace.path, label));
  }
  if (!trace.pauses.empty()) {
    job_.notes.push_back(
        fmt::format("The recording of {} paused {} time{}; steps in which one did "
                    "are left out.",
                    label, trace.pauses.size(), trace.pauses.size() == 1 ? "" : "s"));
  }
  if (trace.lost_events > 0) {
    job_.notes.push_back(
        fmt::format("{} events of {} were lost while recording.", trace.lost_events, label));
  }
}

namespace {

/// The rank's newest bundle in each process set.
using Newest = std::map<std::uint64_t, std::uint64_t>;

Newest newest_bundles(const RankTrace& rank) {
  Newest newest;
  for (const OperationSpan& operation : rank.operations) {
    std::uint64_t& bundle = newest[operation.bundle >> kBundleBits];
    bundle = std::max(bundle, operation.bundle);
  }
  return newest;
}

/// True if the other continued, after the end of a rank's trace, with bundles that need that rank.
bool goes_on_with(const Newest& newest, std::int64_t last_ns, const RankTrace& other) {
  for (auto last = other.operations.rbegin(); last != other.operations.rend(); ++last) {
    if (last->end_ns <= last_ns) return false;
    const auto known = newest.find(last->bundle >> kBundleBits);
    if (known != newest.end() && last->bundle > known->second) return true;
  }
  return false;
}

}  // namespace

/// A killed rank did not write its last moments. Its pending operations have ended since.
void EpochLoader::forget_cut_ends(bool tail) {
  for (RankTrace& rank : job_.ranks) {
    const Newest newest = newest_bundles(rank);
    const bool cut = std::ranges::any_of(job_.ranks, [&](const RankTrace& other) {
      return goes_on_with(newest, rank.last_ns, other);
    });
    if (!cut) continue;
    rank.unfinished.clear();
    // Noted already, or a running job, whose ranks write at different times.
    if (rank.truncated || tail) continue;
    job_.notes.push_back(
        fmt::format("The trace of {} ends before what the others did with it, as that of a "
                    "rank that was killed: its last moments are not known.",
                    label_of(rank.info)));
  }
}

}  // namespace ronde::report
