// `ronde doctor --job`, with ranks that are processes.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "bindings/cli/doctor.h"
#include "tests/backends/net/processes.h"
#include "tests/bindings/cli/program.h"
#include "tests/bindings/runtime/sums.h"
#include "tests/support/contains.h"
#include "tests/timeline/scratch.h"

namespace ronde {
namespace {

using test::contains;

/// Two ranks of which the second never submits "stuck".
class StuckJob {
 public:
  StuckJob() {
    for (int rank = 0; rank < 2; ++rank) {
      ranks_.start([this, rank] { return run(rank); });
    }
  }
  [[nodiscard]] const std::string& id() const { return id_; }
  [[nodiscard]] pid_t pid(int rank) const { return ranks_.pid(static_cast<std::size_t>(rank)); }
  /// Waits until rank 0 is stuck; what doctor said last where it never is.
  [[nodiscard]] std::string wait() const {
    const TimePoint deadline = now() + std::chrono::seconds(20);
    Finished told;
    while (now() < deadline) {
      told = run_ronde({"doctor", "--job", id_});
      if (contains(told.out, "\"stuck\"")) return {};
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return fmt::format("status {}\n{}{}", told.status, told.out, told.err);
  }

 private:
  [[nodiscard]] int run(int rank) const {
    auto runtime = Runtime::create(net::rank_config(id_, rank, 2));
    RONDE_CHILD_REQUIRE(runtime.ok());
    std::vector<float> values(10, 1.0F);
    RONDE_CHILD_REQUIRE(sum(**runtime, kGlobalSet, "first", values).ok());
    if (rank == 0) return sum(**runtime, kGlobalSet, "stuck", values).ok() ? 0 : 1;
    for (;;) ::pause();  // one would end when doctor asks for this thread's stack
  }

  const std::string id_ = net::unique_job_id();
  net::Processes ranks_;
};

}  // namespace

TEST_CASE("doctor --job: it says what each rank waits for, who is missing and where threads are") {
  const StuckJob job;
  REQUIRE(job.wait() == "");
  const Finished told = run_ronde({"doctor", "--job", job.id()});
  CAPTURE(told.out);
  CHECK(told.status == 0);
  CHECK(contains(told.out, fmt::format("rank 0, pid {}", job.pid(0))));
  CHECK(contains(told.out, "pending: \"stuck\" (allreduce, 40 bytes)"));
  CHECK(contains(told.out, "waiting for other ranks; missing: rank 1\n"));
  CHECK(contains(told.out, "last finished: allreduce \"first\""));
  CHECK(contains(told.out, "  idle threads: "));
  CHECK(contains(told.out, "ronde-engine"));
  CHECK_FALSE(contains(told.out, "std::thread"));
  CHECK(contains(told.out, "Engine::wait"));
  CHECK_FALSE(contains(told.out, "Python"));
}

TEST_CASE("doctor --job: the folder of --output is made; one that cannot be made is named") {
  const StuckJob job;
  REQUIRE(job.wait() == "");
  const ScratchFolder scratch;
  const std::string folder = scratch.file("not/yet");
  const Finished told = run_ronde({"doctor", "--job", job.id(), "--output", folder});
  CHECK(told.status == 0);
  CHECK(contains(told.err, "wrote " + folder));  // the output may be JSON
  CHECK_FALSE(std::filesystem::is_empty(folder));
  const Finished refused = run_ronde({"doctor", "--job", job.id(), "--output", "/proc/no"});
  CHECK(refused.status == 2);
  CHECK(contains(refused.err, "--output /proc/no: cannot make the folder /proc/no: "));
}

TEST_CASE("doctor --job: the line of each rank's script comes first, then all its frames") {
  RankAnswer first;
  first.who = {.pid = 1, .number = 0, .rank = 0, .size = 3, .job = "j"};
  first.dump.emplace();
  first.dump->script.push_back({.tid = 7,
                                .name = "MainThread",
                                .line = "train.py:12 in main",
                                .frames = {"queue.py:1 in get", "train.py:12 in main"}});
  RankAnswer second = first;
  second.who.rank = 1;
  second.worker = 4;
  second.dump->script.clear();
  second.dump->script_error = "a thread holds the lock";
  RankAnswer silent;
  silent.who = {.pid = 3, .number = 0, .rank = 2, .size = 3, .job = "j"};
  const std::string text = describe_job({first, second, silent});
  CAPTURE(text);
  CHECK(
      text.starts_with("job j: 3 ranks\nrank 0: train.py:12 in main\n"
                       "rank 1 (worker 4): no Python line: a thread holds the lock\n"
                       "rank 0, pid "));
  CHECK(contains(text, "  Python thread 7 \"MainThread\":\n      queue.py:1 in get\n"));
}

TEST_CASE("doctor --job: threads without work are named only, and no frame of the interpreter is") {
  RankAnswer answer;
  answer.who = {.pid = 1, .number = 0, .rank = 0, .size = 1, .job = "j"};
  answer.dump.emplace();
  const auto add = [&](std::string name, std::string state, std::vector<std::string> frames) {
    answer.dump->threads.push_back({.tid = 7,
                                    .name = std::move(name),
                                    .state = std::move(state),
                                    .frames = std::move(frames)});
  };
  add("python", "S (sleeping)",
      {"ronde::Engine::wait()+1 (a)", "pybind11::f()+1 (a)", "main+1 (a)"});
  add("ronde-engine", "S (sleeping)",
      {"syscall+1 (a)", "ronde::futex_wait()+1 (a)", "ronde::Driver::background_turn()+1 (a)",
       "std::thread::run()+1 (a)"});
  add("ronde-queue", "S (sleeping)", {"ronde::shm::Steps::wait()+1 (a)"});
  add("ronde-watch", "R (running)", {});
  const std::string text = describe_job({answer});
  CAPTURE(text);
  CHECK(contains(text,
                 "  thread 7 \"python\": S (sleeping)\n      ronde::Engine::wait\n"
                 "  thread 7 \"ronde-queue\": S (sleeping)\n      ronde::shm::Steps::wait\n"
                 "  thread 7 \"ronde-watch\": R (running)\n"
                 "  idle threads: ronde-engine\n"));
}

TEST_CASE("doctor --job: frames are shortened to the names of functions") {
  CHECK(function_name("ronde::Engine::wait(std::shared_ptr<ronde::Entry> const&)+0x1f (a.so)") ==
        "ronde::Engine::wait");
  CHECK(function_name("void ronde::(anonymous namespace)::run<int>(int)+0x2 (a.so)") ==
        "ronde::run");
  CHECK(function_name("ronde::f()::{lambda(int)#1}::operator()(int) const+0x2 (a.so)") ==
        "ronde::f");
  CHECK(function_name("pthread_cond_wait+0x99 (libc.so.6)") == "pthread_cond_wait");
  CHECK(function_name("python3.11+0x1234") == "python3.11+0x1234");
}

TEST_CASE("doctor --job: a frozen rank is told as the kernel sees it, soon") {
  const StuckJob job;
  REQUIRE(job.wait() == "");
  ::kill(job.pid(1), SIGSTOP);
  const TimePoint before = now();
  const Finished told = run_ronde({"doctor", "--job", fmt::to_string(job.pid(1))});
  CHECK(now() - before < std::chrono::seconds(20));
  ::kill(job.pid(1), SIGCONT);
  CAPTURE(told.out);
  CHECK(contains(told.out, fmt::format("rank 1, pid {}: is frozen: T (stopped)", job.pid(1))));
}

TEST_CASE("doctor --job: several jobs are listed; one that does not run is named") {
  const StuckJob one;
  const StuckJob other;
  REQUIRE(one.wait() == "");
  REQUIRE(other.wait() == "");
  const Finished told = run_ronde({"doctor", "--job"});
  CHECK(told.status == 2);
  for (const StuckJob* job : {&one, &other}) CHECK(contains(told.err, job->id()));
  CHECK(contains(run_ronde({"doctor", "--job", "no such"}).err, "no job \"no such\" runs"));
}

TEST_CASE("doctor --job: ranks on other hosts and other sets are not blamed") {
  RankAnswer mine;
  mine.who = {.pid = 1, .number = 0, .rank = 0, .size = 3, .job = "j"};
  mine.dump.emplace();
  mine.dump->operations.push_back({.number = 1,
                                   .name = "t",
                                   .kind = "allreduce",
                                   .set = 5,
                                   .bytes = 4,
                                   .submitted_ns = 1,
                                   .agreed_ns = 0,
                                   .started_ns = 0,
                                   .done_ns = 0,
                                   .status = {}});
  RankAnswer other = mine;
  other.who.rank = 1;
  other.dump->operations.clear();
  const std::string text = describe_job({mine, other});
  CHECK_FALSE(contains(text, "missing"));
  CHECK(contains(text, "on other hosts, to be asked there: 1\n"));
}

TEST_CASE("doctor --probe: status 0 while the ranks answer, 1 and one line for a frozen one") {
  const StuckJob job;
  REQUIRE(job.wait() == "");
  const Finished well = run_ronde({"doctor", "--job", job.id(), "--probe"});
  CHECK(well.status == 0);
  CHECK(well.out + well.err == "");
  ::kill(job.pid(1), SIGSTOP);
  const Finished frozen = run_ronde({"doctor", "--job", job.id(), "--probe", "alive"});
  ::kill(job.pid(1), SIGCONT);
  CHECK(frozen.status == 1);
  CHECK(contains(frozen.err, fmt::format("rank 1, pid {}, is frozen", job.pid(1))));
  CHECK(std::ranges::count(frozen.err, '\n') == 1);
}

TEST_CASE("doctor --probe: it makes ranks read no stacks") {
  const StuckJob job;
  REQUIRE(job.wait() == "");
  auto ranks = diagnosis::find_ranks();
  std::erase_if(ranks, [&](const auto& rank) { return rank.job != job.id(); });
  REQUIRE(ranks.size() == 2);
  const auto ask = [&](std::string_view request) {
    return ask_ranks(ranks, request, now() + std::chrono::seconds(20));
  };
  for (const RankAnswer& answer : ask(diagnosis::kProbeRequest)) {
    REQUIRE(answer.dump);
    CHECK(answer.dump->reason == "probe");
    CHECK(answer.dump->threads.empty());
    CHECK(answer.dump->operations.empty());
  }
  const auto full = ask(diagnosis::kDiagnosticsRequest);
  REQUIRE(full.front().dump);
  CHECK_FALSE(full.front().dump->threads.empty());
}

TEST_CASE("doctor --probe: a process before or after its job is alive, but not ready") {
  const std::string id = net::unique_job_id();
  CHECK(run_ronde({"doctor", "--job", id, "--probe", "alive"}).status == 0);
  const Finished told = run_ronde({"doctor", "--job", id, "--probe"});
  CHECK(told.status == 1);
  CHECK(told.err == "ronde doctor --probe: no rank of this user is in a job on this host\n");
}

TEST_CASE("doctor --probe: a rank whose job is broken is named with the reason") {
  RankAnswer answer;
  answer.who = {.pid = 7, .number = 0, .rank = 2, .size = 3, .job = "j"};
  answer.dump.emplace();
  CHECK(check_answers({answer}).ok());
  answer.dump->failure = "rank 1 was killed";
  CHECK(check_answers({answer}).message() == "rank 2: the job is broken: rank 1 was killed");
}

}  // namespace ronde
