#include "timeline/report/job_history.h"

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/timeline/report/elastic_traces.h"
#include "timeline/merging/merge.h"
#include "timeline/report/reports.h"

namespace ronde::report {
namespace {

using test::contains;

constexpr std::int64_t kMs = 1'000'000;

LoadedJob loaded(const std::vector<std::string>& paths) {
  auto job = load_job(paths);
  REQUIRE_MESSAGE(job.ok(), job.status().message());
  return std::move(job).value();
}

/// The text in one line, as wrapping depends on the lengths of names.
std::string flat(const std::string& text) {
  std::istringstream words(text);
  std::string line, word;
  while (words >> word) line += (line.empty() ? "" : " ") + word;
  return line;
}

void check_history(const std::vector<Epoch>& history) {
  REQUIRE(history.size() == 3);
  CHECK(history[0].workers == std::vector{1, 2, 3});
  CHECK(history[1].workers == std::vector{1, 3});
  CHECK(history[2].workers == std::vector{1, 3, 4});
  CHECK(history[0].joined.empty());
  CHECK(history[2].joined == std::vector{4});
  CHECK_FALSE(history[0].transition);
  REQUIRE(history[1].transition);
  REQUIRE(history[2].transition);
  CHECK(history[1].transition->failed);
  CHECK_FALSE(history[2].transition->failed);
}

}  // namespace

TEST_CASE("job history: traces of workers and launcher make one history, apart or merged") {
  const ScratchFolder scratch;
  const auto paths = test::write_elastic_job(scratch);
  const LoadedJob apart = loaded(paths);
  CHECK(apart.elastic());
  CHECK(apart.epochs.size() == 3);
  check_history(apart.history);
  REQUIRE(merge_traces(paths, scratch.file("merged.json")).ok());
  const LoadedJob merged = loaded({scratch.file("merged.json")});
  check_history(merged.history);
  CHECK(merged.history[1].duration_ns() == 90 * kMs);
  CHECK(epochs_report(merged.history) == epochs_report(apart.history));
  CHECK(merged.epochs.at(2).ranks.size() == 2);
  CHECK(merged.epochs.at(2).ranks[1].operations.size() == 3);
}

TEST_CASE("job history: a recovery counts from the death to the last survivor's first operation") {
  const ScratchFolder scratch;
  const LoadedJob job = loaded(test::write_elastic_job(scratch));
  const Transition& transition = *job.history[1].transition;
  CHECK(transition.start_ns - job.history[0].begin_ns == (138 - 95) * kMs);
  CHECK(transition.notice_ns == 2 * kMs);
  CHECK(transition.leave_ns == 7 * kMs);  // until the last one, which noticed 2 ms later
  CHECK(transition.wait_ns == 5 * kMs);
  CHECK(transition.connect_ns == 5 * kMs);
  CHECK(transition.first_ns == 5 * kMs);
  CHECK(transition.duration_ns() == 24 * kMs);
  CHECK(transition.lost_ns == (138 - 124) * kMs);  // since commit 2
  CHECK(transition.lost_steps == 1);
  CHECK(job.history[2].transition->lost_ns == -1);
}

TEST_CASE("job history: without the launcher's trace the workers' traces tell what they know") {
  const ScratchFolder scratch;
  auto paths = test::write_elastic_job(scratch);
  paths.pop_back();
  const LoadedJob job = loaded(paths);
  check_history(job.history);
  CHECK(job.history[1].transition->notice_ns == 0);
  CHECK(contains(epochs_report(job.history), "worker 2 is gone"));
}

TEST_CASE("job history: the report names who died and joined, and sums what it cost") {
  const ScratchFolder scratch;
  const LoadedJob job = loaded(test::write_elastic_job(scratch));
  const std::string text = flat(epochs_report(job.history));
  CHECK(contains(text, "worker 2 died: was killed by signal 9"));
  CHECK(contains(text, "worker 4 joined"));
  CHECK(contains(text, "Recovery to epoch 2: 24.0 ms (2.00 ms until it was noticed"));
  CHECK(contains(text, "In all: 3 epochs; 1 worker died, 1 joined, 0 left."));
  CHECK(contains(text, "1 recovery took 24.0 ms; work of 14.0 ms (1 step) was lost."));
  const std::string live = workers_report(job.history);
  CHECK(contains(live, "Epoch 3 of the job has lasted"));
  CHECK(contains(live, "worker 4      rank 2"));
  CHECK(contains(live, "worker 2      died in epoch 1: was killed by signal 9"));
}

TEST_CASE("job history: an epoch's report calls ranks by their worker's number") {
  const ScratchFolder scratch;
  const LoadedJob job = loaded(test::write_elastic_job(scratch));
  const JobTrace& epoch = job.epochs.at(3);
  const Analysis analysis = analyze(epoch);
  const std::string text = text_report(epoch, analysis, {});
  CHECK(contains(text, "worker 4"));
  const std::vector<Finding> none;
  const std::string page = html_page({epoch, analysis, none, text, job.history});
  CHECK(contains(page, "\"label\":\"worker 4\""));
  CHECK(contains(page, "worker 2 died: was killed by signal 9"));
}

TEST_CASE("job history: an operation that was open as its epoch ended is unfinished") {
  const ScratchFolder scratch;
  const LoadedJob job = loaded(test::write_elastic_job(scratch));
  const RankTrace& rank = job.epochs.at(1).ranks.front();
  CHECK(rank.operations.size() == 3);
  CHECK(rank.unfinished.size() == 1);
}

TEST_CASE("job history: the longest epoch is the one of a plain report") {
  const ScratchFolder scratch;
  const auto paths = test::write_elastic_job(scratch);
  CHECK(load_traces(paths)->epoch == loaded(paths).longest_epoch());
}

TEST_CASE("job history: traces of two elastic jobs are refused") {
  const ScratchFolder scratch;
  auto paths = test::write_elastic_job(scratch);
  std::string other = content_of(paths[0]);
  other.replace(other.find("ab12-1"), 6, "cd34-1");
  paths[0] = scratch.write("other", other);
  CHECK(contains(load_job(paths).status().message(), "traces of several jobs"));
}

}  // namespace ronde::report
