// Elastic jobs of C++ workers under `ronde run`, with real processes on this host.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/bindings/cli/program.h"
#include "tests/support/contains.h"
#include "tests/timeline/scratch.h"

namespace ronde {
namespace {

using test::contains;

class Job {
 public:
  explicit Job(std::vector<std::string> options, const char* worker = ELASTIC_JOB_WORKER)
      : program_(command(std::move(options), worker)) {}

  bool wait_for_text(const std::string& text) { return program_.wait_for_output(text); }
  bool wait_for_error(const std::string& text) { return program_.wait_for_error(text); }
  /// Waits for the line of a worker, of which `text` is the part before its process.
  bool wait_for(int worker, const std::string& text) {
    return program_.wait_for_output(fmt::format("[{}] {}", worker - 1, text));
  }
  [[nodiscard]] pid_t pid(int worker, const std::string& text) const {
    const std::string out = program_.output();
    const std::size_t at = out.find(fmt::format("[{}] {}", worker - 1, text));
    REQUIRE(at != std::string::npos);
    return numbers_after(out.substr(at), "pid").front();
  }
  [[nodiscard]] const ScratchFolder& folder() const { return folder_; }
  /// Lets the workers finish, and waits for the end.
  Finished finish() {
    (void)folder_.write("finish", "");
    return program_.wait();
  }

 private:
  std::vector<std::string> command(std::vector<std::string> options, const char* worker) {
    options.insert(options.begin(), "run");
    options.insert(options.end(), {"--", worker, folder_.file("")});
    return ronde_command(std::move(options));
  }

  ScratchFolder folder_;
  Program program_;
};

}  // namespace

TEST_CASE("C++ elastic job: after a kill -9 the others go on, and a joiner gets the state") {
  Job job({"-np", "3", "--min-np", "1"});
  for (const int worker : {1, 2, 3}) REQUIRE(job.wait_for(worker, "epoch rank"));
  ::kill(job.pid(1, "epoch rank"), SIGKILL);
  REQUIRE(job.wait_for(2, "epoch rank 0 of 3"));
  REQUIRE(job.wait_for(3, "epoch rank 1 of 3"));
  REQUIRE(job.wait_for(4, "epoch rank 2 of 3"));
  const Finished end = job.finish();
  CHECK(end.status == 0);
  for (const int worker : {2, 3}) {
    const std::string line = fmt::format("[{}] finished rank {} of 3 own {}", worker - 1,
                                         worker - 2, job.pid(worker, "epoch rank"));
    CHECK(contains(end.out, line));
  }
  for (const int rank : {0, 1, 2}) CHECK(contains(end.out, fmt::format("finished rank {}", rank)));
}

TEST_CASE("C++ elastic job: ranks of ten hosts meet along a tree, though leaders die meanwhile") {
  std::string hosts = "127.0.0.1:1";
  for (int host = 2; host <= 10; ++host) hosts += fmt::format(",127.0.0.{}:1", host);
  Job job({"-np", "10", "--min-np", "1", "-H", hosts, "--env", "RONDE_LOG_LEVEL=debug"});
  for (int worker = 1; worker <= 10; ++worker) {
    REQUIRE(job.wait_for(worker, fmt::format("epoch rank {} of 10", worker - 1)));
  }
  std::vector<pid_t> leaders;
  for (const int worker : {2, 3, 1}) leaders.push_back(job.pid(worker, "epoch rank"));
  ::kill(leaders[0], SIGKILL);
  REQUIRE(job.wait_for_error("epoch 2: "));
  ::kill(leaders[1], SIGKILL);
  REQUIRE(job.wait_for_error("epoch 3: "));
  ::kill(leaders[2], SIGKILL);
  for (int worker = 11; worker <= 13; ++worker) REQUIRE(job.wait_for(worker, "epoch rank"));
  for (int worker = 4; worker <= 10; ++worker) {
    REQUIRE(job.wait_for(worker, fmt::format("epoch rank {} of 10", worker - 4)));
  }
  const Finished end = job.finish();
  INFO(end.err);
  CHECK(end.status == 0);
  CHECK(contains(end.err, "control channel: 10 ranks met in"));
}

TEST_CASE("C++ elastic job: it grows and shrinks with its hostfile") {
  const ScratchFolder hosts;
  const std::string file = hosts.write("hosts", "localhost slots=1\n");
  Job job({"--min-np", "1", "--hostfile", file});
  REQUIRE(job.wait_for(1, "epoch rank 0 of 1"));
  (void)hosts.write("hosts", "localhost slots=2  # one more\n");
  REQUIRE(job.wait_for(1, "epoch rank 0 of 2"));
  REQUIRE(job.wait_for(2, "epoch rank 1 of 2"));
  (void)hosts.write("hosts", "localhost slots=1\n");
  REQUIRE(job.wait_for(2, "left"));
  REQUIRE(job.wait_for_text("resets 2"));
  CHECK(job.finish().status == 0);
}

TEST_CASE("C++ elastic job: a worker that gets SIGTERM leaves, and nothing is lost") {
  Job job({"-np", "3", "--min-np", "1"});
  for (const int worker : {1, 2, 3}) REQUIRE(job.wait_for(worker, "epoch rank"));
  ::kill(job.pid(2, "epoch rank"), SIGTERM);
  REQUIRE(job.wait_for(2, "left"));
  for (const int worker : {1, 3}) REQUIRE(job.wait_for(worker, "epoch rank"));
  const Finished end = job.finish();
  CHECK(end.status == 0);
  CHECK(contains(end.out, "[0] finished rank 0 of 2"));
  CHECK(contains(end.out, "[2] finished rank 1 of 2"));
  CHECK(contains(end.err, "worker 2 leaves: SIGTERM"));
}

TEST_CASE("C++ elastic job: if all workers die at once, others go on from their copies") {
  Job job({"-np", "2", "--min-np", "1"});
  for (const int worker : {1, 2}) REQUIRE(job.wait_for(worker, "epoch rank"));
  const std::vector<pid_t> owners = {job.pid(1, "epoch rank"), job.pid(2, "epoch rank")};
  for (const pid_t owner : owners) ::kill(owner, SIGKILL);
  for (const int worker : {3, 4}) REQUIRE(job.wait_for(worker, "epoch rank"));
  const Finished end = job.finish();
  CHECK(end.status == 0);
  for (const int rank : {0, 1}) {
    CHECK(contains(end.out, fmt::format("finished rank {} of 2", rank)));
    const std::string own = fmt::format("own {} resets", owners[static_cast<std::size_t>(rank)]);
    CHECK(contains(end.out.substr(end.out.find("finished")), own));
  }
  CHECK_FALSE(contains(end.err, "the job has failed"));
}

TEST_CASE("C++ elastic job: what a worker had goes to its partner if it leaves, or is lost") {
  for (const bool redundancy : {true, false}) {
    const char* const variable = redundancy ? "JOB_REDUNDANCY=1" : "JOB_OTHER=1";
    Job job({"-np", "3", "--min-np", "1", "--env", variable});
    for (const int worker : {1, 2, 3}) REQUIRE(job.wait_for(worker, "epoch rank"));
    const pid_t gone = job.pid(2, "epoch rank");
    ::kill(gone, SIGTERM);
    for (const int worker : {1, 3}) {
      REQUIRE(job.wait_for(worker, fmt::format("epoch rank {} of 2", worker / 2)));
    }
    const Finished end = job.finish();
    INFO(end.out, end.err);
    CHECK(end.status == 0);
    CHECK(contains(end.out, fmt::format("orphan own {}", gone)) == redundancy);
    CHECK(contains(end.err, "redundancy: all ranks are on") == redundancy);
    const char* const lost = "own parts are lost of worker 2; set_redundancy() keeps copies";
    CHECK(contains(end.err, lost) == !redundancy);
  }
}

TEST_CASE("C++ elastic job: one that starts again goes on from its newest whole checkpoint") {
  const ScratchFolder saved;
  const std::vector<std::string> options = {"-np", "2",     "--min-np",
                                            "1",   "--env", "JOB_CHECKPOINT=" + saved.file("job")};
  const auto steps_of_files = [&] {
    std::set<int> steps;
    for (const auto& file : std::filesystem::directory_iterator(saved.file(""))) {
      const std::string name = file.path().filename().string();
      if (name.starts_with("job.") && name.ends_with(".state"))
        steps.insert(std::stoi(name.substr(4)));
    }
    return steps;
  };
  {
    Job first(options);
    while (steps_of_files().size() < 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    CHECK(first.finish().status == 0);
  }
  const std::set<int> steps = steps_of_files();
  REQUIRE(steps.size() == 2);
  const std::string newest = saved.file(fmt::format("job.{:012}.state", *steps.rbegin()));
  std::ofstream(newest, std::ios::app) << "damage";
  Job again(options);
  for (const int worker : {1, 2}) REQUIRE(again.wait_for(worker, "epoch rank"));
  const Finished end = again.finish();
  INFO(end.out, end.err);
  CHECK(end.status == 0);
  CHECK(contains(end.err, newest + " is damaged: it has "));
  CHECK(std::filesystem::exists(newest + ".damaged"));
  CHECK(contains(end.out, fmt::format("resets 0 steps {} pid", *steps.begin() - 2)));
}

TEST_CASE("C++ elastic job: process sets stay as long as all their workers are left") {
  Job job({"-np", "3", "--min-np", "1"}, ELASTIC_SETS_WORKER);
  for (const int worker : {1, 2}) REQUIRE(job.wait_for(worker, "epoch 1 of 3: sum 2"));
  REQUIRE(job.wait_for(3, "epoch 1 of 3"));
  ::kill(job.pid(3, "epoch 1"), SIGKILL);
  REQUIRE(job.wait_for(4, "epoch 1 of 3"));
  for (const int worker : {1, 2}) REQUIRE(job.wait_for(worker, "epoch 2 of"));
  ::kill(job.pid(1, "epoch 1"), SIGKILL);
  const std::string sentence = "process set 1 was made of the workers 1, 2, not all of which are";
  REQUIRE(job.wait_for_text(sentence));
  REQUIRE(job.wait_for(5, "epoch 1 of 3"));
  const Finished end = job.finish();
  CHECK(end.status == 0);
  CHECK_FALSE(contains(end.out.substr(0, end.out.find(sentence)), "there is no process set"));
  for (const int worker : {1, 2}) {
    const bool both = contains(end.out, fmt::format("[{}] epoch 2 of 2: sum 2", worker - 1)) ||
                      contains(end.out, fmt::format("[{}] epoch 2 of 3: sum 2", worker - 1));
    CHECK(both);
  }
}

}  // namespace ronde
