// `ronde run` of elastic jobs, with real processes on this host. Loopback addresses stand for
// hosts.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/base/clock.h"
#include "tests/bindings/cli/program.h"
#include "tests/support/contains.h"
#include "tests/timeline/scratch.h"

namespace ronde {
namespace {

using test::contains;

std::vector<std::string> job_command(const ScratchFolder& folder,
                                     std::vector<std::string> options) {
  options.insert(options.begin(), "run");
  options.insert(options.end(), {"--", ELASTIC_WORKER, folder.file("")});
  return ronde_command(std::move(options));
}

/// A job of test workers, which runs.
class Job {
 public:
  explicit Job(const std::vector<std::string>& options) : program_(job_command(folder_, options)) {}
  /// Where the test failed, nothing of the job may be left.
  ~Job() {
    if (ended_) return;
    program_.signal(SIGKILL);
    for (int worker = 1; pid(worker) > 0; ++worker) {
      kill(worker);
      (void)wait_until_gone(pid(worker));
    }
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// Waits for worker `worker`'s line of this epoch; false where the job ends before.
  bool wait_for(int worker, const std::string& epoch) {
    return program_.wait_for_output(fmt::format("[{}] epoch {}", worker - 1, epoch));
  }
  bool wait_for_error(const std::string& text) { return program_.wait_for_error(text); }
  [[nodiscard]] pid_t pid(int worker) const {
    return std::atoi(content_of(folder_.file(fmt::format("pid.{}", worker))).c_str());
  }
  void kill(int worker) const { ::kill(pid(worker), SIGKILL); }
  void touch(const std::string& name) const { (void)folder_.write(name, ""); }
  [[nodiscard]] const ScratchFolder& folder() const { return folder_; }
  void signal(int number) const { program_.signal(number); }
  Finished wait() {
    ended_ = true;
    return program_.wait();
  }
  /// Lets the workers finish, and waits for the end.
  Finished finish() {
    touch("finish");
    return wait();
  }

 private:
  ScratchFolder folder_;
  Program program_;
  bool ended_ = false;
};

/// A script that lists the hosts of a file.
class HostList {
 public:
  explicit HostList(const std::string& hosts) {
    set(hosts);
    script_ = folder_.write("hosts.sh", fmt::format("#!/bin/sh\ncat {}\n", folder_.file("hosts")));
    ::chmod(script_.c_str(), 0755);
  }
  void set(const std::string& hosts) const {
    (void)folder_.write("new", hosts);
    std::filesystem::rename(folder_.file("new"), folder_.file("hosts"));
  }
  void break_it() const { std::filesystem::remove(folder_.file("hosts")); }
  [[nodiscard]] const std::string& script() const { return script_; }

 private:
  ScratchFolder folder_;
  std::string script_;
};

/// The text after `before` up to the next blank.
std::string word_after(const std::string& text, const std::string& before) {
  const std::size_t at = text.find(before);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + before.size();
  return text.substr(begin, text.find_first_of(" \n", begin) - begin);
}

pid_t parent_of(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("PPid:", 0) == 0) return std::atoi(line.c_str() + 5);
  }
  return -1;
}

}  // namespace

TEST_CASE("elastic run: workers start with a number and no rank; the epoch gives them one") {
  Job job({"-np", "3", "--min-np", "2"});
  for (int worker = 1; worker <= 3; ++worker) REQUIRE(job.wait_for(worker, "1 rank"));
  const Finished end = job.finish();
  CHECK(end.status == 0);
  for (int worker = 1; worker <= 3; ++worker) {
    CHECK(contains(end.out, fmt::format("[{}] worker {} pid=", worker - 1, worker)));
    CHECK(contains(end.out, fmt::format("[{0}] epoch 1 rank {0} of 3", worker - 1)));
  }
  CHECK(contains(end.out, "elastic 11 rank <>"));
  CHECK(contains(end.out, "secret 64 meets <>"));
  CHECK(contains(end.err, "epoch 1: 3 workers begin"));
}

TEST_CASE("elastic run: after a kill -9 the others go on, and a new worker joins them") {
  Job job({"-np", "4", "--min-np", "2"});
  for (int worker = 1; worker <= 4; ++worker) REQUIRE(job.wait_for(worker, "1 rank"));
  const pid_t killed = job.pid(2);
  job.kill(2);
  for (const int worker : {1, 3, 4}) REQUIRE(job.wait_for(worker, "2 rank"));
  for (const int worker : {1, 3, 4, 5}) REQUIRE(job.wait_for(worker, "3 rank"));
  const Finished end = job.finish();
  CHECK(end.status == 0);
  CHECK(
      contains(end.err, fmt::format("worker 2 (pid {}) was killed by signal 9 (Killed)", killed)));
  CHECK(contains(end.err, "epoch 2: 3 of 4 workers go on; worker 2"));
  CHECK(contains(end.err, "worker 5 starts"));
  CHECK(contains(end.err, "epoch 3: 3 of 3 workers go on, worker 5 joins"));
  CHECK(contains(end.out, "[2] epoch 2 rank 1 of 3"));
  CHECK(contains(end.out, "[4] epoch 3 rank 3 of 4"));
}

TEST_CASE("elastic run: another program than ssh starts the agents, and says where ranks meet") {
  const ScratchFolder scratch;
  const std::string shell =
      scratch.write("shell", "#!/bin/sh\nRONDE_AGENT_ADDRESS=127.0.0.7 exec sh -c \"$2\"\n");
  ::chmod(shell.c_str(), 0755);
  Job job({"-np", "2", "--min-np", "2", "--remote-shell", shell, "-H", "east:1,west:1"});
  REQUIRE(job.wait_for(2, "1 rank 1 of 2"));
  const Finished end = job.finish();
  CHECK(end.status == 0);
  CHECK(contains(end.out, "meets <127.0.0.7:"));
  CHECK(contains(end.out, "tree <1x2 127.0.0.7:"));
}

TEST_CASE("elastic run: the tree of hosts holds a replacement, which is apart from its host's") {
  Job job({"-np", "3", "--min-np", "1", "-H", "127.0.0.2:2,127.0.0.3:1"});
  for (const int worker : {1, 2, 3}) REQUIRE(job.wait_for(worker, "1 rank"));
  job.kill(2);
  for (const int worker : {1, 3, 4}) REQUIRE(job.wait_for(worker, "3 rank"));
  const Finished end = job.finish();
  CHECK(end.status == 0);
  CHECK(contains(end.out, "tree <2x1,1x1 127.0.0."));
  CHECK(contains(end.out, "tree <1x2,1@0 127.0.0."));
}

TEST_CASE("elastic run: each epoch is a job of its own") {
  Job job({"-np", "2", "--min-np", "1"});
  for (const int worker : {1, 2}) REQUIRE(job.wait_for(worker, "1 rank"));
  job.kill(1);
  for (const int worker : {2, 3}) REQUIRE(job.wait_for(worker, "3 rank"));
  const Finished end = job.finish();
  const std::string first = word_after(end.out, "[1] epoch 1 rank 1 of 2 job ");
  const std::string third = word_after(end.out, "[1] epoch 3 rank 0 of 2 job ");
  const std::string name = first.substr(0, first.find('-'));  // of the whole job
  CHECK(name.size() == 16);
  CHECK(first == name + "-1");
  CHECK(third == name + "-3");
  CHECK(word_after(end.out, "[0] epoch 1 rank 0 of 2 job ") == first);
  CHECK(word_after(end.out, "[2] epoch 3 rank 1 of 2 job ") == third);
}

TEST_CASE("elastic run: workers follow the list of a discovery script") {
  const HostList hosts("localhost:2\n");
  Job job({"--min-np", "1", "--host-discovery-script", hosts.script()});
  for (const int worker : {1, 2}) REQUIRE(job.wait_for(worker, "1 rank"));
  hosts.set("localhost:2\n127.0.0.2:1\n");
  for (const int worker : {1, 2, 3}) REQUIRE(job.wait_for(worker, "2 rank"));
  hosts.break_it();
  REQUIRE(job.wait_for_error("the hosts stay as they are"));
  hosts.set("localhost:2\n");
  for (const int worker : {1, 2}) REQUIRE(job.wait_for(worker, "3 rank"));
  const Finished end = job.finish();
  CHECK(end.status == 0);
  CHECK(contains(end.err, "the hosts are now localhost:2, 127.0.0.2:1"));
  CHECK(contains(end.err, "epoch 2: 2 of 2 workers go on, worker 3 joins"));
  CHECK(contains(end.out, "changed 1 of epoch 1"));
  CHECK(contains(end.out, "[2] epoch 2 rank 2 of 3"));
  CHECK(contains(end.out, "meets <127.0.0.1:"));
  CHECK(contains(end.out, "changed 2 of epoch 2"));
  CHECK(contains(end.out, "[2] dismissed: this worker was asked to leave"));
}

TEST_CASE("elastic run: a hostfile that changes is read again") {
  const ScratchFolder folder;
  Job job({"--min-np", "1", "--hostfile", folder.write("hosts", "localhost slots=1\n")});
  REQUIRE(job.wait_for(1, "1 rank 0 of 1"));
  std::filesystem::rename(folder.write("new", "localhost slots=2  # one more\n"),
                          folder.file("hosts"));
  REQUIRE(job.wait_for(2, "2 rank 1 of 2"));
  CHECK(job.finish().status == 0);
}

TEST_CASE("elastic run: the job starts once there are slots for -np workers") {
  const HostList hosts("localhost:1\n");
  Job job({"-np", "2", "--min-np", "1", "--host-discovery-script", hosts.script()});
  REQUIRE(job.wait_for_error("waiting for 2 slots to start: the hosts have 1 (localhost:1)"));
  hosts.set("localhost:2\n");
  for (const int worker : {1, 2}) REQUIRE(job.wait_for(worker, "1 rank"));
  CHECK(job.finish().status == 0);
}

TEST_CASE("elastic run: with too few slots the job fails after the elastic timeout") {
  const HostList hosts("localhost:1\n");
  Job job({"-np", "2", "--host-discovery-script", hosts.script(), "--elastic-timeout", "1.5"});
  const Finished end = job.wait();
  CHECK(end.status == 1);
  CHECK(contains(end.err, "fewer than 2 slots"));
}

TEST_CASE("elastic run: with too few workers the job waits, then fails with the sentence") {
  Job job({"-np", "2", "--min-np", "2", "--on-failure", "blacklist", "-H",
           "localhost:1,127.0.0.2:1", "--elastic-timeout", "1"});
  for (const int worker : {1, 2}) REQUIRE(job.wait_for(worker, "1 rank"));
  job.kill(2);
  REQUIRE(job.wait_for_error("waiting for 1 worker more, up to 1 s: 1 worker of at least 2 ready"));
  const Finished end = job.wait();
  CHECK(end.status != 0);
  CHECK(contains(end.err, "--elastic-timeout"));
  CHECK(contains(end.out, "[0] dismissed: the job has failed"));
}

TEST_CASE("elastic run: the reset limit ends the job") {
  Job job({"-np", "2", "--min-np", "1", "--reset-limit", "0"});
  for (const int worker : {1, 2}) REQUIRE(job.wait_for(worker, "1 rank"));
  job.kill(2);
  const Finished end = job.wait();
  CHECK(end.status != 0);
  CHECK(contains(end.err, "(--reset-limit)"));
  CHECK_FALSE(contains(end.out, "epoch 2"));
}

TEST_CASE("elastic run: a blacklisted host gets workers again after its cool-down") {
  Job job({"-np", "3", "--min-np", "1", "-H", "localhost:2,127.0.0.2:1", "--on-failure",
           "blacklist", "--blacklist-cooldown-range", "1", "5"});
  for (const int worker : {1, 2, 3}) REQUIRE(job.wait_for(worker, "1 rank"));
  const TimePoint killed = now();
  job.kill(3);
  for (const int worker : {1, 2}) REQUIRE(job.wait_for(worker, "2 rank"));
  for (const int worker : {1, 2, 4}) REQUIRE(job.wait_for(worker, "3 rank"));
  CHECK(now() - killed >= std::chrono::seconds(1));
  const Finished end = job.finish();
  CHECK(end.status == 0);
  CHECK(contains(end.err, "worker 4 starts on 127.0.0.2"));
}

TEST_CASE("elastic run: a host whose agent dies is lost, and used again") {
  Job job({"-np", "3", "--min-np", "1", "-H", "localhost:2,127.0.0.2:1"});
  for (const int worker : {1, 2, 3}) REQUIRE(job.wait_for(worker, "1 rank"));
  ::kill(parent_of(job.pid(3)), SIGKILL);
  for (const int worker : {1, 2}) REQUIRE(job.wait_for(worker, "2 rank"));
  for (const int worker : {1, 2, 4}) REQUIRE(job.wait_for(worker, "3 rank"));
  const Finished end = job.finish();
  CHECK(end.status == 0);
  CHECK(contains(end.err, "host 127.0.0.2 is lost: its agent was killed by signal 9 (Killed)"));
}

TEST_CASE("elastic run: when rank 0's host is lost, another host gives the rendezvous") {
  Job job({"-np", "3", "--min-np", "1", "-H", "127.0.0.2:1,127.0.0.3:1,127.0.0.4:1"});
  for (const int worker : {1, 2, 3}) REQUIRE(job.wait_for(worker, "1 rank"));
  ::kill(parent_of(job.pid(1)), SIGKILL);
  for (const int worker : {2, 3}) REQUIRE(job.wait_for(worker, "2 rank"));
  const Finished end = job.finish();
  CHECK(contains(end.out, "[1] epoch 2 rank 0 of 2"));
  CHECK(contains(end.err, "host 127.0.0.2 is lost"));
}

TEST_CASE("elastic run: a killed launcher lets the workers save, and leaves nothing") {
  Job job({"-np", "3", "--min-np", "1", "-H", "localhost:2,127.0.0.2:1"});
  for (const int worker : {1, 2, 3}) REQUIRE(job.wait_for(worker, "1 rank"));
  std::vector<pid_t> left = {parent_of(job.pid(1)), parent_of(job.pid(3))};
  for (const int worker : {1, 2, 3}) left.push_back(job.pid(worker));
  job.signal(SIGKILL);
  for (const pid_t pid : left) CHECK(wait_until_gone(pid));
  for (const int worker : {1, 2, 3}) {
    CHECK(content_of(job.folder().file(fmt::format("saved.{}", worker))) == "saved");
  }
}

TEST_CASE("elastic run: a worker that does not save is killed after the launcher") {
  Job job({"-np", "1", "--min-np", "1"});
  REQUIRE(job.wait_for(1, "1 rank"));
  const pid_t worker = job.pid(1);
  ::kill(worker, SIGSTOP);
  const TimePoint killed = now();
  job.signal(SIGKILL);
  CHECK(wait_until_gone(worker));
  CHECK(now() - killed > std::chrono::seconds(4));
}

TEST_CASE("elastic run: a worker that is stopped while another dies is killed after the limit") {
  Job job({"-np", "4", "--min-np", "2", "--env", "RONDE_FREEZE_TIMEOUT_SECONDS=4"});
  for (const int worker : {1, 2, 3, 4}) REQUIRE(job.wait_for(worker, "1 rank"));
  ::kill(job.pid(2), SIGSTOP);
  job.kill(3);
  for (const int worker : {1, 4}) REQUIRE(job.wait_for(worker, "2 rank"));
  const Finished end = job.finish();
  CHECK(end.status == 0);
  CHECK(contains(end.err,
                 "worker 2 has been stopped for 4 s (RONDE_FREEZE_TIMEOUT_SECONDS); it "
                 "is killed"));
}

TEST_CASE("elastic run: without a limit a stopped worker is waited for, and people are told") {
  Job job({"-np", "3", "--min-np", "2", "--env", "RONDE_FREEZE_TIMEOUT_SECONDS=0"});
  for (const int worker : {1, 2, 3}) REQUIRE(job.wait_for(worker, "1 rank"));
  ::kill(job.pid(2), SIGSTOP);
  job.kill(3);
  REQUIRE(job.wait_for_error("epoch 1 has ended, but worker 2 has not noticed for 10 s"));
  ::kill(job.pid(2), SIGCONT);
  for (const int worker : {1, 2}) REQUIRE(job.wait_for(worker, "2 rank"));
  CHECK(job.finish().status == 0);
}

TEST_CASE("elastic run: SIGTERM lets all workers leave, and starts none again") {
  Job job({"-np", "2", "--min-np", "1"});
  for (const int worker : {1, 2}) REQUIRE(job.wait_for(worker, "1 rank"));
  job.signal(SIGTERM);
  const Finished end = job.wait();
  CHECK(end.status == 143);
  for (const int rank : {0, 1}) CHECK(contains(end.out, fmt::format("[{}] dismissed", rank)));
  CHECK(contains(end.err, "worker 1 leaves: SIGTERM"));
  CHECK_FALSE(contains(end.err, "worker 3"));
}

TEST_CASE("elastic run: a worker that leaves is dismissed, and the others go on") {
  Job job({"-np", "3", "--min-np", "1"});
  for (const int worker : {1, 2, 3}) REQUIRE(job.wait_for(worker, "1 rank"));
  ::kill(job.pid(2), SIGTERM);
  for (const int worker : {1, 3}) REQUIRE(job.wait_for(worker, "2 rank"));
  const Finished end = job.finish();
  CHECK(end.status == 0);
  CHECK(contains(end.out, "[1] dismissed: this worker was asked to leave"));
}

TEST_CASE("elastic run: a command that cannot start or fails at once is the job's failure") {
  const Finished missing = run_ronde({"run", "-np", "2", "--min-np", "1", "no-such-command"});
  CHECK(missing.status == 127);
  CHECK(contains(missing.err, "cannot run \"no-such-command\""));
  const Finished failed = run_ronde({"run", "-np", "2", "--min-np", "1", "sh", "-c", "exit 7"});
  CHECK(failed.status == 7);
}

TEST_CASE("elastic run: wrong command lines end with status 2 and a sentence") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--min-np", "3", "--max-np", "2"}, "--min-np 3: allowed is 1 to --max-np 2"},
      {{"-np", "1", "--min-np", "2"}, "-np 1: allowed is --min-np 2 or more"},
      {{"-np", "4", "--max-np", "2"}, "-np 4: allowed is 1 to --max-np 2"},
      {{"--min-np", "0"}, "0 not in range"},
      {{"--min-np", "3", "-H", "localhost:2"}, "2 slots"},
      {{"--on-failure", "pray"}, "pray"},
      {{"--reset-limit", "3"}, "--reset-limit is for elastic jobs"},
      {{"--elastic-timeout", "3"}, "--elastic-timeout is for elastic jobs"},
      {{"--min-np", "1", "--blacklist-cooldown-range", "1", "2"}, "needs --on-failure blacklist"},
      {{"--on-failure", "blacklist", "--blacklist-cooldown-range", "3", "2"}, "MIN <= MAX"},
      {{"--min-np", "1", "--restarts", "2"}, "--reset-limit"},
      {{"--min-np", "1", "--backend", "mpi"}, "--backend mpi cannot be elastic"},
      {{"--min-np", "1", "--env", "RONDE_FREEZE_TIMEOUT_SECONDS=soon"},
       "RONDE_FREEZE_TIMEOUT_SECONDS=\"soon\""},
      {{"--min-np", "1", "--hostfile", "/no/such"}, "cannot read the hostfile /no/such"},
      {{"--host-discovery-script", "/no/such"}, "/no/such"},
      {{"--host-discovery-script", "sh", "-H", "localhost"}, "no -H"}};
  for (const auto& refused : cases) {
    const std::string& part = refused.second;
    CAPTURE(part);
    std::vector<std::string> arguments = refused.first;
    arguments.insert(arguments.begin(), "run");
    arguments.push_back("true");
    const Finished job = run_ronde(arguments);
    CHECK(job.status == 2);
    CHECK(contains(job.err, part));
  }
}

}  // namespace ronde
