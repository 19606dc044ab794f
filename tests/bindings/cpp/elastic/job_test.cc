// Elastic jobs of C++ workers under `ronde run`, with real processes on this host.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>

#include <string>
#include <vector>

#include "tests/bindings/cli/program.h"
#include "tests/support/contains.h"
#include "tests/timeline/scratch.h"

namespace ronde {
namespace {

using test::contains;

class Job {
 public:
  explicit Job(std::vector<std::string> options) : program_(command(std::move(options))) {}

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
  std::vector<std::string> command(std::vector<std::string> options) {
    options.insert(options.begin(), "run");
    options.insert(options.end(), {"--", ELASTIC_JOB_WORKER, folder_.file("")});
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
  REQUIRE(job.wait_for(4, "epoch rank 2 of 3 own 12 resets 0"));
  const Finished end = job.finish();
  CHECK(end.status == 0);
  CHECK(contains(end.out, "[1] finished rank 0 of 3 own 11"));
  CHECK(contains(end.out, "[2] finished rank 1 of 3 own 12"));
  for (const int rank : {0, 1, 2}) CHECK(contains(end.out, fmt::format("finished rank {}", rank)));
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
  REQUIRE(job.wait_for(1, "epoch rank 0 of 1 own 10 resets 2"));
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

}  // namespace ronde
