// Warnings of operations that do not end, with ranks that are processes.
#include "bindings/runtime/diagnosis/stall_reporter.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

#include "bindings/runtime/groups/group_factory.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
#include "tests/backends/net/processes.h"
#include "tests/bindings/runtime/sums.h"
#include "tests/bindings/runtime/wait_for.h"
#include "tests/support/contains.h"
#include "tests/timeline/scratch.h"

namespace ronde {
namespace {

using net::all_good;
using net::rank_config;
using net::run_ranks;
using net::unique_job_id;
using test::contains;

/// The warnings of this process.
class Warnings {
 public:
  Warnings() {
    set_log(LogLevel::kWarning, [this](LogLevel, std::string_view line) {
      MutexLock lock(mutex_);
      text_.append(line).append("\n");
    });
  }
  ~Warnings() { set_log(LogLevel::kWarning, nullptr); }
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;
  [[nodiscard]] std::string text() const {
    MutexLock lock(mutex_);
    return text_;
  }

 private:
  mutable Mutex mutex_;
  std::string text_ RONDE_GUARDED_BY(mutex_);
};

Config watched_config(const std::string& job, int rank, int size) {
  Config config = rank_config(job, rank, size);
  config.stall_warning = std::chrono::seconds(1);
  return config;
}

DumpOperation operation(const char* name) {
  DumpOperation operation;
  operation.name = name;
  operation.kind = "allreduce";
  return operation;
}

/// The answer of a rank with one operation that is agreed, and begun at `started_ns`.
diagnosis::RankAnswer answer_of(int rank, std::int64_t started_ns) {
  diagnosis::RankAnswer answer;
  answer.who.rank = rank;
  answer.dump.emplace();
  answer.dump->rank = rank;
  answer.dump->operations.push_back(operation("w"));
  answer.dump->operations.back().agreed_ns = 1;
  answer.dump->operations.back().started_ns = started_ns;
  return answer;
}

/// The others' wait for rank 1, whose thread is stuck after "first". Returns rank 0's warnings.
int stick_rank_1(const std::string& job, int rank, const ScratchFolder& folder,
                 std::size_t inline_bytes, const std::string& expected) {
  Config config = watched_config(job, rank, 2);
  config.inline_bytes = inline_bytes;
  auto runtime = Runtime::create(config);
  RONDE_CHILD_REQUIRE(runtime.ok());
  const Warnings warnings;
  std::vector<float> first(10, 1.0F);
  std::vector<float> second(10, 1.0F);
  Submission submission = sum_of("first", first);
  if (rank == 1) {
    submission.on_done = [&](Operation&) {
      wait_for([&] { return std::filesystem::exists(folder.file("seen")); });
    };
  }
  const auto begun = (*runtime)->operations().submit(kGlobalSet, std::move(submission)).value();
  if (rank == 0) RONDE_CHILD_REQUIRE((*runtime)->operations().wait(begun, {}).ok());
  const auto stuck = (*runtime)->operations().submit(kGlobalSet, sum_of("second", second)).value();
  if (rank == 0) {
    const bool seen = wait_for([&] { return contains(warnings.text(), expected); });
    (void)folder.write("seen", "");
    RONDE_CHILD_REQUIRE(seen);
  }
  RONDE_CHILD_REQUIRE((*runtime)->operations().wait(begun, {}).ok());
  RONDE_CHILD_REQUIRE((*runtime)->operations().wait(stuck, {}).ok());
  return 0;
}

}  // namespace

TEST_CASE("StallReporter: it names the operation, the time and the ranks that have not begun it") {
  diagnosis::LateOperation late{.operation = operation("w"), .late_ns = 61'000'000'000};
  late.operation.agreed_ns = 1;
  late.operation.started_ns = 2;
  Dump own;
  own.host = "h";
  diagnosis::RankAnswer missing = answer_of(1, 0);
  missing.dump->script.push_back(
      {.tid = 7, .name = "MainThread", .line = "train.py:2 in load", .frames = {}});
  diagnosis::RankAnswer silent;
  silent.who.rank = 3;
  silent.silence = "is frozen: T (stopped)";
  CHECK(diagnosis::late_text(late, own, {missing, answer_of(2, 5), silent}) ==
        "allreduce \"w\" has run for 61 s and waits for rank 1 (train.py:2 in load), rank 3, which "
        "is frozen: T (stopped)");
  diagnosis::RankAnswer stopped = answer_of(2, 5);
  stopped.dump->threads.push_back(
      {.tid = 9, .name = "ronde-engine", .state = "t (tracing stop)", .frames = {}});
  CHECK(diagnosis::late_text(late, own, {stopped}) ==
        "allreduce \"w\" has run for 61 s and waits for rank 2, whose thread \"ronde-engine\" is "
        "stopped: t (tracing stop)");
  late.others = 7;
  CHECK(diagnosis::late_text(late, own, {answer_of(2, 5)}) ==
        "allreduce \"w\" and 7 more have run for 61 s; all ranks of h that answer have begun them");
}

TEST_CASE("StallReporter: the lowest rank of a host that waits reports for all of them") {
  DumpOperation own = operation("w");
  own.agreed_ns = 1;
  own.started_ns = 9;
  CHECK(diagnosis::is_reported_below(own, 2, {answer_of(0, 3)}));
  CHECK_FALSE(diagnosis::is_reported_below(own, 2, {answer_of(0, 0)}));
  CHECK_FALSE(diagnosis::is_reported_below(own, 2, {answer_of(3, 3)}));
  own.name = "other";
  CHECK_FALSE(diagnosis::is_reported_below(own, 2, {answer_of(0, 3)}));
}

TEST_CASE("StallReporter: a rank that does not come to a raw group is named") {
  const std::string job = unique_job_id();
  const auto codes = run_ranks(3, [&](int rank) {
    auto runtime = Runtime::create(watched_config(job, rank, 3));
    RONDE_CHILD_REQUIRE(runtime.ok());
    const Warnings warnings;
    const auto group = (*runtime)->groups().open({0, 1, 2});
    RONDE_CHILD_REQUIRE(group.ok());
    RONDE_CHILD_REQUIRE((*group)->run(Bundle{}).ok());
    if (rank == 1) ::sleep(4);
    RONDE_CHILD_REQUIRE((*group)->run(Bundle{}).ok());
    if (rank != 0) return 0;
    RONDE_CHILD_REQUIRE(contains(warnings.text(), "barrier group of ranks 0,1,2, call 2 has run"));
    RONDE_CHILD_REQUIRE(contains(warnings.text(), "s and waits for rank 1; `ronde doctor --job`"));
    return 0;
  });
  CHECK(codes == all_good(3));
}

TEST_CASE("StallReporter: after the error limit the data plane's wait ends with the reason") {
  const std::string job = unique_job_id();
  const auto codes = run_ranks(3, [&](int rank) {
    Config config = watched_config(job, rank, 3);
    config.stall_error = std::chrono::seconds(2);
    auto runtime = Runtime::create(config);
    RONDE_CHILD_REQUIRE(runtime.ok());
    const auto group = (*runtime)->groups().open({0, 1, 2});
    RONDE_CHILD_REQUIRE(group.ok());
    const auto alone = (*runtime)->groups().open({rank});
    RONDE_CHILD_REQUIRE(alone.ok());
    // Rank 1 does not come before it has the news: its coming would end the others' barrier well.
    if (rank == 1) wait_for([&] { return !(*alone)->run(Bundle{}).ok(); });
    const Status status = (*group)->run(Bundle{});
    RONDE_CHILD_REQUIRE(status.code() == Code::kStalled);
    RONDE_CHILD_REQUIRE(contains(status.message(), "waits for rank 1; given up"));
    return 0;
  });
  CHECK(codes == all_good(3));
}

TEST_CASE("StallReporter: agreed work that one rank's thread does not begin is told of") {
  const ScratchFolder folder;
  const std::string job = unique_job_id();
  const auto codes = run_ranks(2, [&](int rank) {
    return stick_rank_1(job, rank, folder, 0, "allreduce \"second\" has run for");
  });
  CHECK(codes == all_good(2));
}

TEST_CASE("StallReporter: a stuck driving thread, which answers no query, is told of") {
  const ScratchFolder folder;
  const std::string job = unique_job_id();
  const auto codes = run_ranks(2, [&](int rank) {
    return stick_rank_1(job, rank, folder, 1 << 20, "allreduce \"second\" has run for");
  });
  CHECK(codes == all_good(2));
}

}  // namespace ronde
