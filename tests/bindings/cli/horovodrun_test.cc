// The program under the name horovodrun.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/bindings/cli/program.h"
#include "tests/support/contains.h"
#include "tests/timeline/scratch.h"

namespace ronde {
namespace {

using test::contains;

Finished run_horovodrun(std::vector<std::string> arguments) {
  const ScratchFolder scratch;
  const std::string program = scratch.file("horovodrun");
  std::filesystem::create_symlink(RONDE_PROGRAM, program);
  arguments.insert(arguments.begin(), program);
  return Program(arguments).wait();
}

}  // namespace

TEST_CASE("horovodrun: the usual flags start a job with the settings they mean") {
  const std::string script =
      "echo $HOROVOD_RANK $RONDE_FUSION_THRESHOLD $RONDE_CACHE_CAPACITY $RONDE_LOG_LEVEL "
      "$RONDE_STALL_WARNING_SECONDS";
  const Finished job = run_horovodrun(
      {"-np", "2", "-H", "localhost:2", "--gloo", "--fusion-threshold-mb", "32", "--cache-capacity",
       "99", "--log-level", "INFO", "--no-stall-check", "sh", "-c", script});
  CHECK(job.status == 0);
  CHECK(contains(job.out, "[1] 1 32M 99 info 0\n"));
}

TEST_CASE("horovodrun: flags that mean nothing here are taken, and a line says what is done") {
  const Finished job =
      run_horovodrun({"-np", "1", "--cycle-time-ms", "5", "--autotune", "--mpi", "echo", "fine"});
  CHECK(job.status == 0);
  CHECK(contains(job.out, "[0] fine\n"));
  CHECK(contains(job.err, "--cycle-time-ms has no effect: there are no cycles"));
  CHECK(contains(job.err, "--autotune has no effect: nothing is tuned at run time"));
  CHECK(contains(job.err, "--mpi has no effect: Ronde's own control plane is used"));
}

TEST_CASE("horovodrun: words of the command stay as they are") {
  const Finished job = run_horovodrun({"-np", "1", "echo", "-np", "3", "-hostfile"});
  CHECK(job.out == "[0] -np 3 -hostfile\n");
}

TEST_CASE("horovodrun: variables before the command and commands of a shell work as in one") {
  const auto output_of = [](std::vector<std::string> command) {
    command.insert(command.begin(), {"-np", "1"});
    return run_horovodrun(std::move(command)).out;
  };
  CHECK(output_of({"A=1", "B=2 3", "sh", "-c", "echo $A $B"}) == "[0] 1 2 3\n");
  CHECK(output_of({"cd / && echo \"in $PWD\""}) == "[0] in /\n");
  CHECK(output_of({"A=1", "cd / && echo $A > /dev/stdout"}) == "[0] 1\n");
  CHECK(output_of({"exec", "echo", "two  words", "$HOME"}) == "[0] two  words $HOME\n");
  CHECK(run_horovodrun({"-np", "1", "A=1"}).status == 2);
}

TEST_CASE("horovodrun: --check-build and --version print and end") {
  for (const char* const flag : {"--check-build", "-cb"}) {
    const Finished done = run_horovodrun({flag});
    CHECK(done.status == 0);
    CHECK(contains(done.out, "[X] PyTorch"));
  }
  CHECK(run_horovodrun({"-v"}).out == "ronde " RONDE_VERSION "\n");
}

TEST_CASE("horovodrun: lines of output begin with the time on request") {
  const Finished job = run_horovodrun({"-np", "1", "-prefix-timestamp", "echo", "fine"});
  CHECK(job.status == 0);
  CHECK(job.out.size() == std::string_view("2026-03-01 12:30:59.125 [0] fine\n").size());
  CHECK(job.out.ends_with(" [0] fine\n"));
}

TEST_CASE("horovodrun: --config-file has the values of flags that are not given") {
  const ScratchFolder scratch;
  const std::string file = scratch.write("config.yaml",
                                         "# comment\nparams:\n  fusion_threshold_mb: 32\n"
                                         "  cache_capacity: 7\nlogging:\n  level: \"INFO\"\n"
                                         "stall_check:\n  enabled: false\nmine:\n  thing: 1\n");
  const std::string script = "echo $RONDE_FUSION_THRESHOLD $RONDE_CACHE_CAPACITY $RONDE_LOG_LEVEL";
  const Finished job = run_horovodrun({"-np", "1", "--cache-capacity", "9", "--config-file", file,
                                       "sh", "-c", script + " $RONDE_STALL_WARNING_SECONDS"});
  CHECK(job.out == "[0] 32M 9 info 0\n");
  CHECK(contains(job.err, "mine.thing has no meaning"));
  const std::string bad = scratch.write("bad.yaml", "params:\n  - 3\n");
  const Finished refused = run_horovodrun({"-np", "1", "--config-file=" + bad, "true"});
  CHECK(refused.status == 2);
  CHECK(contains(refused.err, "line 2, \"- 3\": allowed are"));
  CHECK(run_horovodrun({"-np", "1", "--config-file", "/no/file", "true"}).status == 2);
}

TEST_CASE("horovodrun: an elastic job by Horovod's spellings, which waits for -np workers") {
  const ScratchFolder scratch;
  const std::string script = scratch.write("hosts.sh", "#!/bin/sh\necho localhost\n");
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const Finished job =
      run_horovodrun({"-np", "2", "--max-num-proc", "4", "--slots", "1", "--host-discovery-script",
                      script, "--reset-limit", "3", "--elastic-timeout", "1",
                      "--blacklist-cooldown-range", "1", "2", "echo", "never"});
  CHECK(job.status == 1);
  CHECK(contains(job.err, "waiting for 2 slots to start: the hosts have 1 (localhost:1)"));
  CHECK_FALSE(contains(job.out, "never"));
}

TEST_CASE("horovodrun: the elastic timeout by Horovod's variable") {
  const std::vector<std::string> command = {"-np", "2", "--host-discovery-script", "true", "true"};
  ::setenv("HOROVOD_ELASTIC_TIMEOUT", "0.2", 1);  // NOLINT(concurrency-mt-unsafe)
  CHECK(contains(run_horovodrun(command).err, "had fewer than 2 slots"));
  ::setenv("HOROVOD_ELASTIC_TIMEOUT", "soon", 1);  // NOLINT(concurrency-mt-unsafe)
  const Finished bad = run_horovodrun(command);
  ::unsetenv("HOROVOD_ELASTIC_TIMEOUT");  // NOLINT(concurrency-mt-unsafe)
  CHECK(bad.status == 2);
  CHECK(contains(bad.err, "HOROVOD_ELASTIC_TIMEOUT=soon: allowed are seconds above 0"));
}

TEST_CASE("horovodrun: an elastic job takes all slots of the hosts that -H lists") {
  const std::string script =
      "echo rank $HOROVOD_RANK of $HOROVOD_SIZE on $HOROVOD_HOSTNAME; sleep 1";
  const Finished job = run_horovodrun(
      {"-np", "1", "--min-num-proc", "1", "-H", "localhost:1,127.0.0.1:1", "sh", "-c", script});
  CHECK(contains(job.out, "[0] rank 0 of 2 on localhost\n"));
  CHECK(contains(job.out, "[1] rank 1 of 2 on 127.0.0.1\n"));
}

TEST_CASE("horovodrun: errors in an elastic job's options name horovodrun") {
  const Finished job = run_horovodrun({"-np", "2", "--min-np", "3", "true"});
  CHECK(job.status == 2);
  CHECK(contains(job.err, "horovodrun: -np 2: allowed is --min-np 3 or more"));
  CHECK(contains(job.err, "horovodrun --help"));
}

TEST_CASE("horovodrun: an unknown flag is an error") {
  const Finished job = run_horovodrun({"-np", "1", "--no-such-flag", "echo"});
  CHECK(job.status == 2);
  CHECK(contains(job.err, "horovodrun: "));
  CHECK(contains(job.err, "--no-such-flag"));
}

}  // namespace ronde
