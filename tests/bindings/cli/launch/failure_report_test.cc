#include "bindings/cli/launch/failure_report.h"

#include <doctest/doctest.h>

#include "tests/support/contains.h"

namespace ronde {
namespace {

using test::contains;
using Lines = std::vector<std::string>;

const TimePoint kJobStart = now();
constexpr int kStatus1 = 1 << 8;
constexpr int kStatus3 = 3 << 8;
constexpr int kKilled = 9;

std::string traceback(const std::string& error) {
  return "Traceback (most recent call last):\n  File \"/a/train.py\", line 5, in f\n    g()\n" +
         error + "\n";
}

/// A rank that ended some milliseconds after the start.
RankEnd end_of(int rank, int wait_status, int ms, const std::string& error = "") {
  RankEnd end;
  end.rank = rank;
  end.pid = 100 + rank;
  end.wait_status = wait_status;
  end.failed_at = kJobStart + std::chrono::milliseconds(ms);
  if (!error.empty()) end.error = read_error(traceback(error));
  return end;
}

const char* const kConsequence = "ronde._errors.RankFailure: rank 1 (pid 101 on h) died";

/// The complaint about a command whose ranks have all ended well.
std::string complaint(const std::vector<std::string>& command, int ranks, bool joined) {
  JoinWatch watch;
  for (int rank = 0; rank < ranks; ++rank) watch.on_exited({rank, 100 + rank, 0, joined});
  return watch.complaint(command);
}

}  // namespace

TEST_CASE("failure report: the cause has its traceback, what follows from it a line") {
  FailureReport report;
  CHECK(report.add(end_of(0, kStatus1, 1, kConsequence)) ==
        Lines{"RankFailure: rank 1 (pid 101 on h) died (train.py:5)"});
  CHECK(report.add(end_of(1, kStatus1, 2, "ValueError: bad batch 50")).size() == 4);
  CHECK(report.add(end_of(2, kStatus1, 3, kConsequence)).size() == 1);
  CHECK(report.summary() ==
        Lines{"rank 1 failed first: ValueError: bad batch 50 (train.py:5)",
              "rank 1 (pid 101) exited with status 1; ranks 0, 2 failed in consequence"});
  CHECK(report.left_out());
}

TEST_CASE("failure report: a module that newcomers miss is followed by the remedy") {
  const auto advice = [](const std::string& module) {
    FailureReport report;
    (void)report.add(
        end_of(0, kStatus1, 1, "ModuleNotFoundError: No module named '" + module + "'"));
    return report.summary().size() == 3 ? report.summary()[2] : "";
  };
  CHECK(contains(advice("horovod"), "ronde run --horovod"));
  CHECK(advice("horovod.keras.foo") == "");  // horovod itself was found
  CHECK(contains(advice("ronde"), "`ronde run -np 2 script.py`"));
  CHECK(advice("numpy") == "");
}

TEST_CASE("failure report: a killed rank is the cause, whoever is noticed first") {
  FailureReport report;
  (void)report.add(end_of(0, kStatus1, 1, kConsequence));
  (void)report.add(end_of(1, kKilled, 2));
  REQUIRE(report.first() != nullptr);
  CHECK(report.first()->rank == 1);
  CHECK(report.summary()[0] == "rank 1 failed first: it was killed by signal 9 (Killed)");
}

TEST_CASE("failure report: a rank that left early left first, though it ended well") {
  FailureReport report;
  (void)report.add(end_of(1, 0, 1));
  (void)report.add(end_of(0, kStatus1, 2, "ronde.RankFailure: rank 1 has left the job"));
  REQUIRE(report.first() != nullptr);
  CHECK(report.first()->rank == 0);  // whose exit status is the job's
  CHECK(report.summary() ==
        Lines{"rank 1 left first, as rank 0 reports: RankFailure: rank 1 has left the job "
              "(train.py:5)",
              "rank 1 (pid 101) exited with status 0; rank 0 failed in consequence"});
}

TEST_CASE("failure report: a frozen rank failed first, though it was asked to end") {
  FailureReport report;
  (void)report.add(
      end_of(0, kStatus1, 1, "ronde.RankFailure: rank 1 (pid 101 on h) was frozen for 6 s"));
  RankEnd frozen = end_of(1, kKilled, 2);
  frozen.asked = true;
  (void)report.add(frozen);
  CHECK(report.summary() ==
        Lines{"rank 1 failed first, as rank 0 reports: RankFailure: rank 1 (pid 101 on h) was "
              "frozen for 6 s (train.py:5)",
              "rank 1 (pid 101) was killed by signal 9 (Killed) when asked to end; rank 0 failed "
              "in consequence"});
}

TEST_CASE("failure report: of ranks that cannot reach each other none failed first") {
  FailureReport report;
  (void)report.add(end_of(1, kStatus1, 1, "ronde.RankFailure: rank 0 cannot be reached"));
  (void)report.add(end_of(0, kStatus1, 2, "ronde.RankFailure: rank 1 cannot be reached"));
  CHECK(report.summary() ==
        Lines{"rank 1 reports: RankFailure: rank 0 cannot be reached (train.py:5)",
              "rank 1 (pid 101) exited with status 1; rank 0 failed in consequence"});
}

TEST_CASE("failure report: C++ ranks that abort in consequence are not the cause") {
  FailureReport report;
  RankEnd aborted = end_of(0, 6, 1);
  aborted.error = read_error(
      "terminate called after throwing an instance of 'ronde::RankFailure'\n"
      "  what():  rank 1 (pid 101 on h) died\n");
  (void)report.add(aborted);
  (void)report.add(end_of(1, kStatus1, 2));
  CHECK(report.first()->rank == 1);
}

/// Host b, with ranks 2 and 3, is lost so long after the start.
Mishap lost_host(int ms, bool asked = false) {
  return {.sentence = "host b failed first: ssh was killed by signal 9 (Killed)",
          .lost_ranks = {2, 3},
          .at = kJobStart + std::chrono::milliseconds(ms),
          .asked = asked};
}

/// A rank that a signal has ended when the launcher asked it to.
RankEnd ended_by_launcher(int rank) {
  RankEnd end = end_of(rank, 15, 9);
  end.asked = true;
  return end;
}

TEST_CASE("failure report: a lost host failed first, not the ranks that are ended because of it") {
  FailureReport report;
  report.add(lost_host(1));
  (void)report.add(ended_by_launcher(0));
  (void)report.add(ended_by_launcher(1));
  CHECK(report.summary() == Lines{"host b failed first: ssh was killed by signal 9 (Killed)",
                                  "ranks 2, 3 were lost with their host; ranks 0, 1 ended when "
                                  "asked to"});
}

TEST_CASE("failure report: a lost host failed first, though a rank that missed it ended sooner") {
  FailureReport report;
  (void)report.add(end_of(0, kStatus1, 1, "ronde.RankFailure: rank 2 (pid 9 on b) died"));
  (void)report.add(end_of(1, kStatus1, 2, "RuntimeError: Connection closed by peer"));
  report.add(lost_host(5));
  CHECK(report.summary() == Lines{"host b failed first: ssh was killed by signal 9 (Killed)",
                                  "ranks 2, 3 were lost with their host; rank 0 failed in "
                                  "consequence; rank 1 raised RuntimeError: Connection closed by "
                                  "peer (train.py:5)"});
}

TEST_CASE("failure report: a host that answers no more is named where ranks only report it") {
  FailureReport report;
  (void)report.add(end_of(0, kStatus1, 1, "ronde.RankFailure: rank 2 cannot be reached"));
  report.add(lost_host(9, true));
  CHECK(report.summary() == Lines{"host b failed first: ssh was killed by signal 9 (Killed)",
                                  "rank 0 reports: RankFailure: rank 2 cannot be reached "
                                  "(train.py:5)",
                                  "ranks 2, 3 were lost with their host; rank 0 failed in "
                                  "consequence"});
}

TEST_CASE("failure report: a rank that has failed before its host is lost failed first") {
  for (const bool asked : {false, true}) {
    FailureReport report;
    (void)report.add(end_of(0, kKilled, 1));
    report.add(lost_host(5, asked));
    CHECK(report.first_mishap() == nullptr);
    CHECK(report.summary()[0] == "rank 0 failed first: it was killed by signal 9 (Killed)");
  }
  FailureReport report;
  (void)report.add(end_of(0, kStatus1, 1, "ValueError: x"));
  report.add(lost_host(5, true));
  CHECK(report.summary()[0] == "rank 0 failed first: ValueError: x (train.py:5)");
}

TEST_CASE("failure report: a rank that cannot start failed first, and is told once if alone") {
  FailureReport report;
  const Mishap cannot{.sentence = "rank 1: cannot run \"x\"", .lost_ranks = {}, .at = kJobStart};
  report.add(cannot);
  CHECK(report.summary().empty());
  (void)report.add(ended_by_launcher(0));
  CHECK(report.summary() == Lines{cannot.sentence, "rank 0 ended when asked to"});
}

TEST_CASE("failure report: the same error on all ranks is told once") {
  FailureReport report;
  for (int rank = 0; rank < 4; ++rank) {
    (void)report.add(end_of(rank, kStatus1, rank, "ModuleNotFoundError: No module named 'x'"));
  }
  CHECK(contains(report.summary()[1], "ranks 1-3 failed alike"));
}

TEST_CASE("failure report: the same error is shown once, though its first rank ends later") {
  FailureReport report;
  CHECK(report.add(end_of(0, kStatus1, 5, "KeyError: 'x'")).size() == 4);
  CHECK(report.add(end_of(1, kStatus1, 1, "KeyError: 'x'")) == Lines{"KeyError: 'x' (train.py:5)"});
  CHECK(report.first()->rank == 1);
  CHECK(report.missing_traceback().empty());
}

TEST_CASE("failure report: an exit status above 1 counts more than an exception") {
  FailureReport report;
  (void)report.add(end_of(0, kStatus1, 1, "RuntimeError: Connection closed by peer"));
  (void)report.add(end_of(1, kStatus3, 2));
  CHECK(report.first()->rank == 1);
  CHECK(contains(report.summary()[1], "rank 0 raised RuntimeError: Connection closed by peer"));
}

TEST_CASE("failure report: an earlier traceback of a rank that still runs comes first") {
  FailureReport report;
  RankEnd later = end_of(0, kStatus1, 5, "RuntimeError: closed");
  later.earlier_error = kJobStart;
  CHECK(report.add(later).size() == 1);
  CHECK(report.add(end_of(1, kStatus1, 1, "ValueError: x")).size() == 4);
  CHECK(report.first()->rank == 1);
  CHECK(report.missing_traceback().empty());
}

TEST_CASE("failure report: the cause's traceback is printed in the end at the latest") {
  FailureReport report;
  RankEnd only = end_of(0, kStatus1, 5, "RuntimeError: closed");
  only.earlier_error = kJobStart;  // of a rank that went on
  CHECK(report.add(only).size() == 1);
  CHECK(report.missing_traceback().size() == 4);
  CHECK(report.missing_traceback().empty());
}

TEST_CASE("failure report: ranks that were asked to end are no cause") {
  FailureReport report;
  (void)report.add(end_of(2, kStatus1, 3));
  RankEnd asked = end_of(0, 15, 1);
  asked.asked = true;
  (void)report.add(asked);
  (void)report.add(end_of(3, 0, 1));
  CHECK(report.first()->rank == 2);
  CHECK(report.summary()[1] ==
        "rank 2 (pid 102) exited with status 1; rank 0 ended when asked to; rank 3 ended well");
}

TEST_CASE("failure report: a program without a traceback is told by its last line") {
  FailureReport report;
  RankEnd end = end_of(0, kStatus1, 1);
  end.host = "node2";
  end.last_line = "no data";
  (void)report.add(end);
  CHECK(report.summary() == Lines{"rank 0 failed first: it exited with status 1; its last line of "
                                  "errors: no data",
                                  "rank 0 (pid 100 on node2) exited with status 1"});
}

TEST_CASE("failure report: a job of ranks that end well has no summary") {
  FailureReport report;
  const auto logged = report.add(end_of(0, 0, 1, "KeyError: 'x'"));
  CHECK(logged.size() == 4);
  CHECK(report.summary().empty());
}

TEST_CASE("failure report: lists of ranks are short") {
  CHECK(rank_list({3}) == "rank 3");
  CHECK(rank_list({0, 1}) == "ranks 0, 1");
  CHECK(rank_list({0, 2, 3, 4, 7}) == "ranks 0, 2-4, 7");
}

TEST_CASE("JoinWatch: a script that no rank has joined from is named") {
  CHECK(complaint({"python", "src/train.py", "--epochs", "3"}, 2, false) ==
        "no rank has joined the job: 2 processes ran train.py, each for itself; the script must "
        "call ronde.init(), or hvd.init(), unless its processes meet in another way");
}

TEST_CASE("JoinWatch: nothing is said of jobs that are as they should be") {
  CHECK(complaint({"python", "train.py"}, 2, true).empty());
  CHECK(complaint({"python", "train.py"}, 1, false).empty());
  CHECK(complaint({"hostname"}, 2, false).empty());
  CHECK(complaint({"bash", "-c", "echo $RANK"}, 2, false).empty());
}

}  // namespace ronde
