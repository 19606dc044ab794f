// `ronde run` with real processes on this host.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/bindings/cli/program.h"
#include "tests/support/contains.h"

namespace ronde {
namespace {

using test::contains;

Finished run_shell(int np, const std::string& script) {
  return run_ronde({"run", "-np", fmt::to_string(np), "sh", "-c", script});
}

/// A directory that goes with its owner.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "ronde-test-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~ScratchDirectory() { std::filesystem::remove_all(path_); }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A rank with a child in its process group and one that has left it, which says their pids.
constexpr const char* kFamily =
    "trap '' INT TERM; sleep 1000 & echo child=$!; setsid sleep 1000 & echo child=$!; "
    "echo child=$$; echo ready; wait";

}  // namespace

TEST_CASE("a wrong option names the command whose help knows better") {
  const Finished wrong = run_ronde({"timeline", "report", "--wrong", "trace.json"});
  CHECK(wrong.status == 2);
  CHECK(contains(wrong.err, "Run ronde timeline report --help"));
}

TEST_CASE("run: every rank starts, its lines carry its number, streams stay apart") {
  const Finished job = run_shell(3, "echo out of $RANK; echo err of $RANK >&2");
  CHECK(job.status == 0);
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(contains(job.out, fmt::format("[{0}] out of {0}\n", rank)));
    CHECK(contains(job.err, fmt::format("[{0}] err of {0}\n", rank)));
  }
  CHECK_FALSE(contains(job.out, "err"));
}

TEST_CASE("run: the ranks know one another by the names of all launchers") {
  const Finished job =
      run_shell(2,
                "echo $RONDE_RANK/$RONDE_SIZE $WORLD_SIZE $LOCAL_RANK $HOROVOD_RANK $MASTER_ADDR "
                "$((MASTER_PORT > 0)) $((OMP_NUM_THREADS > 0)) ${#RONDE_JOB_ID}");
  CHECK(contains(job.out, "[0] 0/2 2 0 0 127.0.0.1 1 1 16\n"));
  CHECK(contains(job.out, "[1] 1/2 2 1 1 127.0.0.1 1 1 16\n"));
}

TEST_CASE(
    "run: ranks get the call of a folder by descriptors, and their sealed answers come back") {
  const ScratchDirectory scratch;
  std::ofstream(scratch.path() / "call.pickle") << "the call";
  const std::string script =
      "import fcntl, os\n"
      "call = os.pread(int(os.environ['RONDE_CALL_FD']), 99, 0)\n"
      "answer = int(os.environ['RONDE_ANSWER_FD'])\n"
      "os.write(answer, call + b' of ' + os.environ['RANK'].encode())\n"
      "if os.environ['RANK'] == '0': fcntl.fcntl(answer, 1033, 8)\n";
  const Finished job = run_ronde(
      {"run", "-np", "2", "--call-folder", scratch.path(), "--", "python3", "-c", script});
  CHECK(job.status == 0);
  CHECK(content_of(scratch.path() / "0.pickle") == "the call of 0");
  CHECK_FALSE(std::filesystem::exists(scratch.path() / "1.pickle"));  // it was not sealed
}

TEST_CASE("run: the job of a rank has nothing of the enclosing one") {
  std::vector<std::string> outer = {
      "run", "-np", "1", "--", "env", "RONDE_RENDEZVOUS=n1:1", "RONDE_ELASTIC_FD=9"};
  const std::string script = "echo \"<$RONDE_RENDEZVOUS$RONDE_ELASTIC_FD> $RONDE_RANK\"";
  const auto inner = ronde_command({"run", "-np", "2", "--", "sh", "-c", script});
  outer.insert(outer.end(), inner.begin(), inner.end());
  const Finished job = run_ronde(outer);
  CHECK(job.status == 0);
  for (const char* line : {"[0] <> 0\n", "[1] <> 1\n"}) CHECK(contains(job.out, line));
}

TEST_CASE("run: another program than ssh starts the agents, of hosts that it alone knows") {
  const ScratchDirectory scratch;
  const std::filesystem::path shell = scratch.path() / "shell";
  std::ofstream(shell)
      << "#!/bin/sh\nHOST_THERE=$1 RONDE_AGENT_ADDRESS=127.0.0.1 exec sh -c \"$2\"\n";
  std::filesystem::permissions(shell, std::filesystem::perms::owner_all);
  const Finished job = run_ronde({"run", "--remote-shell", shell, "-H", "east:1,west:1", "--", "sh",
                                  "-c", "echo $RANK on $HOST_THERE at $MASTER_ADDR"});
  CHECK(job.status == 0);
  CHECK(contains(job.out, "[0] 0 on east at 127.0.0.1\n"));
  CHECK(contains(job.out, "[1] 1 on west at 127.0.0.1\n"));
  const Finished none = run_ronde({"run", "--remote-shell", "/no/shell", "-H", "east:1", "true"});
  CHECK(none.status == 1);
  CHECK(contains(none.err, "cannot run \"/no/shell\""));
}

TEST_CASE("run: a host that is lost is named as the one that failed first") {
  const ScratchDirectory scratch;
  const std::filesystem::path shell = scratch.path() / "shell";
  std::ofstream(shell) << "#!/bin/sh\n[ $1 != b ] || { (until [ -e " << scratch.path() / "up"
                       << " ]; do sleep 0.02; done; kill -9 $$) & }\n"
                       << "RONDE_AGENT_ADDRESS=127.0.0.1 exec sh -c \"exec $2\"\n";
  std::filesystem::permissions(shell, std::filesystem::perms::owner_all);
  const std::string script = "[ $RANK != 2 ] || touch " + (scratch.path() / "up").string();
  // By the launcher, and by the agent of the first host.
  for (const char* const fan_out : {"32", "1"}) {
    std::filesystem::remove(scratch.path() / "up");
    const Finished job = run_ronde({"run", "--remote-shell", shell, "--agent-fan-out", fan_out,
                                    "-H", "a:2,b:1", "--", "sh", "-c", script + "; sleep 1000"});
    CHECK(job.status == 1);
    CHECK(contains(job.err, "host b failed first: "));
    CHECK(contains(job.err, "killed by signal 9 (Killed)\n"));
    CHECK(contains(job.err, "rank 2 was lost with its host; ranks 0, 1 ended when asked to"));
  }
}

TEST_CASE("run: a folder that is gone is told, by each command that needs it") {
  const auto in_gone_folder = [](const std::string& arguments) {
    return Program({"sh", "-c",
                    "mkdir gone-$$ && cd gone-$$ && rmdir ../gone-$$ && exec " +
                        std::string(RONDE_PROGRAM) + " " + arguments})
        .wait();
  };
  const auto before = std::filesystem::current_path();
  const ScratchDirectory scratch;
  std::filesystem::current_path(scratch.path());
  for (const char* const command :
       {"run -np 2 -- true", "run -np 1 --timeline t.json -- true", "run --min-np 1 -- true"}) {
    const Finished job = in_gone_folder(command);
    CHECK(job.status == 2);
    CHECK(contains(job.err, "ronde run: the current folder cannot be used: No such file"));
  }
  for (const char* const command : {"timeline report t.json", "timeline merge t.json",
                                    "top t.json --wait 0.1", "doctor --limits"}) {
    CAPTURE(command);
    const Finished other = in_gone_folder(command);
    CHECK(other.status < 128);
    CHECK_FALSE(contains(other.err, "terminate called"));
    CHECK_FALSE(contains(other.err, "did not expect"));
  }
  std::filesystem::current_path(before);
}

TEST_CASE("run: a command that only a shell understands is refused with what to type") {
  const Finished variable = run_ronde({"run", "-np", "1", "VAR=1", "true"});
  CHECK(variable.status == 2);
  CHECK(contains(variable.err, "\"VAR=1\" is no program: set a variable by --env VAR=1"));
  const Finished line = run_ronde({"run", "-np", "1", "cd x && true"});
  CHECK(line.status == 2);
  CHECK(contains(line.err, "start it by -- sh -c 'cd x && true'"));
  CHECK(run_ronde({"run", "-np", "1", "cd", "x"}).status == 2);
}

TEST_CASE("run: inside an allocation of one node its tasks are the ranks") {
  const auto run_with = [](const std::string& environment, const std::string& options) {
    return Program({"sh", "-c",
                    "exec env SLURM_JOB_ID=7 SLURM_JOB_NODELIST=$(hostname) " + environment + " " +
                        RONDE_PROGRAM + " run " + options + " -- sh -c 'echo of $RONDE_SIZE'"})
        .wait();
  };
  CHECK(contains(run_with("SLURM_TASKS_PER_NODE=2", "").out, "[1] of 2\n"));
  CHECK(run_with("SLURM_NTASKS=2", "-np 1").out == "[0] of 1\n");
  CHECK(contains(run_with("SLURM_NTASKS=1", "-np 2").out, "[1] of 2\n"));
  const Finished bad = run_with("SLURM_NTASKS=x", "");
  CHECK(bad.status == 2);
  CHECK(contains(bad.err, "SLURM_NTASKS"));
}

TEST_CASE("run: all ranks get one secret by a descriptor, and none by environment or argv") {
  const Finished job =
      run_shell(2,
                "secret=$(cat /proc/self/fd/$RONDE_SECRET_FD); echo secret=$secret.${#secret}; "
                "cat /proc/self/environ /proc/$PPID/environ /proc/$PPID/cmdline | grep -c $secret");
  const std::size_t at = job.out.find("secret=");
  REQUIRE(at != std::string::npos);
  const std::string secret = job.out.substr(at, 71);
  CHECK(std::count(job.out.begin(), job.out.end(), '=') == 2);
  CHECK(job.out.rfind(secret) != at);
  CHECK(contains(job.out, ".64\n"));
  CHECK(contains(job.out, "[0] 0\n"));
  CHECK(contains(job.out, "[1] 0\n"));
}

TEST_CASE("run: --horovod says what is missing where no Python package lies beside the program") {
  const Finished job = run_ronde({"run", "-np", "1", "--horovod", "true"});
  CHECK(job.status == 2);
  CHECK(contains(job.err, "--horovod needs ronde's Python package"));
}

TEST_CASE("run: --horovod puts the alias in front of PYTHONPATH, and only then") {
  const ScratchDirectory scratch;
  const std::filesystem::path program = scratch.path() / "ronde";
  std::filesystem::copy_file(RONDE_PROGRAM, program);
  std::filesystem::create_directory(scratch.path() / "_horovod_alias");
  const auto python_path = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {program.string(), "run", "--env", "PYTHONPATH=mine"});
    options.insert(options.end(), {"sh", "-c", "echo path=$PYTHONPATH"});
    return Program(options).wait().out;
  };
  CHECK(python_path({}) == "[0] path=mine\n");
  CHECK(python_path({"--horovod"}) ==
        fmt::format("[0] path={}/_horovod_alias:mine\n", scratch.path().string()));
}

TEST_CASE("run: the exit status is that of the first rank that failed, and the rest is stopped") {
  const Finished job = run_shell(3, "[ $RANK = 1 ] && exit 7; sleep 1000");
  CHECK(job.status == 7);
  CHECK(contains(job.err, "rank 1 (pid "));
  CHECK(contains(job.err, "exited with status 7"));
}

TEST_CASE("run: --restarts starts all ranks again, as another job each time") {
  const ScratchDirectory scratch;
  const std::string tries = (scratch.path() / "tries").string();
  const std::string directory = (scratch.path() / "logs").string();
  const std::string script =
      "tries() { wc -l 2> /dev/null < " + tries +
      " || echo 0; }; echo job of $RANK $RONDE_JOB_ID; " + "[ $RANK = 0 ] && echo x >> " + tries +
      " && [ $(tries) -lt 3 ] && exit 7; " + "until [ $(tries) -ge 3 ]; do sleep 0.02; done";
  const Finished job = run_ronde(
      {"run", "-np", "2", "--restarts", "3", "--output-dir", directory, "sh", "-c", script});
  CHECK(job.status == 0);
  CHECK(contains(job.err, "attempt 2 of 4: all ranks start again (--restarts)"));
  CHECK(contains(job.err, "attempt 3 of 4"));
  CHECK_FALSE(contains(job.err, "attempt 4"));
  const std::string kept = content_of(scratch.path() / "logs/rank.0.txt");
  CHECK(std::count(kept.begin(), kept.end(), '\n') == 3);
  const std::string first = kept.substr(0, kept.find('\n'));
  CHECK(kept.rfind(first) == 0);
}

TEST_CASE(
    "run: after the last restart the status is the failed rank's; a signal restarts nothing") {
  const Finished failed = run_ronde({"run", "--restarts", "1", "sh", "-c", "echo try; exit 7"});
  CHECK(failed.status == 7);
  CHECK(failed.out == "[0] try\n[0] try\n");
  Program stopped(ronde_command({"run", "--restarts", "5", "sh", "-c", "echo up; sleep 1000"}));
  REQUIRE(stopped.wait_for_output("up"));
  stopped.signal(SIGTERM);
  const Finished end = stopped.wait();
  CHECK(end.status == 143);
  CHECK_FALSE(contains(end.err, "attempt"));
}

TEST_CASE("run: who still runs is told once another has ended well for a while") {
  Program job(
      ronde_command({"run", "-np", "2", "sh", "-c", "[ $RANK = 1 ] && exit 0; sleep 1000"}));
  REQUIRE(job.wait_for_error("rank 1 has ended, rank 0 still runs"));
  job.signal(SIGTERM);
  CHECK(job.wait().status == 143);
}

TEST_CASE("run: a killed rank is told by its signal") {
  const Finished job = run_shell(2, "[ $RANK = 1 ] && kill -9 $$; sleep 1000");
  CHECK(job.status == 137);
  CHECK(contains(job.err, "was killed by signal 9 (Killed)"));
}

TEST_CASE("run: a rank that ignores SIGTERM does not hold the job up for ever") {
  const Finished job =
      run_shell(2, "[ $RANK = 1 ] && exit 3; trap '' TERM; while :; do sleep 1; done");
  CHECK(job.status == 3);
}

TEST_CASE("run: Ctrl-C reaches the ranks, and the launcher says 130") {
  const std::string waiting =
      "trap 'echo got it $RANK; exit 0' INT; echo ready $RANK; "
      "while :; do sleep 0.05; done";
  Program job(ronde_command({"run", "-np", "2", "sh", "-c", waiting}));
  REQUIRE(job.wait_for_output("ready 0"));
  REQUIRE(job.wait_for_output("ready 1"));
  job.signal(SIGINT);
  const Finished end = job.wait();
  CHECK(end.status == 130);
  CHECK(contains(end.out, "[0] got it 0"));
  CHECK(contains(end.out, "[1] got it 1"));
}

TEST_CASE("run: a second Ctrl-C kills what ignored the first") {
  Program job(ronde_command({"run", "-np", "1", "sh", "-c", kFamily}));
  REQUIRE(job.wait_for_output("ready"));
  job.signal(SIGINT);
  job.signal(SIGTERM);
  CHECK(job.wait().status == 130);
  for (const int pid : numbers_after(job.output(), "child")) CHECK(wait_until_gone(pid));
}

TEST_CASE("run: a killed launcher leaves no orphan, not even one that left its group") {
  Program job(ronde_command({"run", "-np", "2", "sh", "-c", kFamily}));
  REQUIRE(job.wait_for_output("[0] ready"));
  REQUIRE(job.wait_for_output("[1] ready"));
  const std::vector<int> children = numbers_after(job.output(), "child");
  REQUIRE(children.size() == 6);
  job.signal(SIGKILL);
  for (const int pid : children) CHECK(wait_until_gone(pid));
}

TEST_CASE("run: nothing of a job outlives it, though a rank left processes behind") {
  const Finished job = run_shell(1, "setsid sleep 1000 & echo child=$!");
  CHECK(job.status == 0);
  const std::vector<int> children = numbers_after(job.out, "child");
  REQUIRE(children.size() == 1);
  CHECK(wait_until_gone(children.front()));
}

TEST_CASE("run: all that a rank wrote arrives, though it ends at once") {
  const Finished job =
      run_shell(2, "i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done");
  CHECK(std::count(job.out.begin(), job.out.end(), '\n') == 10000);
  CHECK(contains(job.out, "[1] line 4999\n"));
}

TEST_CASE("run: a command that is not there is said as a shell says it") {
  const Finished missing = run_ronde({"run", "-np", "2", "no-such-command"});
  CHECK(missing.status == 127);
  CHECK(contains(missing.err, "cannot run \"no-such-command\": No such file"));
  CHECK(run_ronde({"run", "/"}).status == 126);
}

TEST_CASE("run: wrong command lines end with status 2 and a sentence") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"run", "--nonsense", "x"}, "--nonsense"},
      {{"run", "-np", "0", "x"}, "\"0\" is out of range; allowed are whole numbers from 1"},
      {{"run", "-np", "two", "x"}, "\"two\" is no number"},
      {{"run", "--timelin", "t.json", "x"}, "--timelin; perhaps --timeline is meant"},
      {{"timeline", "reprot"}, "perhaps \"report\" is meant"},
      {{"rnu"}, "perhaps \"run\" is meant"},
      {{"run", "--network-interface", "no-such0", "x"}, "no-such0"},
      {{"run", "--timeline", "/proc/no/t.json", "x"}, "cannot make the folder /proc/no"},
      {{"run", "-np", "2", "--stdin", "2", "x"}, "--stdin 2: allowed are ranks 0 to 1"},
      {{"run", "--min-np", "1", "--stdin", "0", "x"}, "--stdin is for jobs that are neither"},
      {{"run", "-np", "2"}, "no command"},
      {{"run", "-np", "3", "-H", "localhost:2", "x"}, "2 slots"},
      {{"run", "-H", "localhost,localhost", "x"}, "twice"},
      {{"run", "-H", "localhost,127.0.0.1", "x"}, "this host"},
      {{"run", "--hostfile", "/no/such/file", "x"}, "hostfile /no/such/file: No such file"},
      {{"run", "--hostfile", "/", "x"}, "cannot read the hostfile /: Is a directory"},
      {{"run", "-np", "99999999999", "x"}, "\"99999999999\" is out of range"},
      {{"run", "-H", "", "x"}, "--hosts: the value is empty"},
      {{"run", "--timeline", "", "x"}, "--timeline: the value is empty"},
      {{"timeline", "report", "/dev/null"}, "/dev/null: byte 0: the file ends where"},
      {{"timeline", "merge", "/", "-o", "t.json"}, "cannot read the trace /: Is a directory"},
      {{"run", "--backend", "pigeon", "x"}, "pigeon"},
      {{"run", "--env", "RONDE_TEST_NOT_SET", "x"}, "RONDE_TEST_NOT_SET"},
      {{"dance"}, "dance"},
      {{"run", "--num-prco", "2", "x"}, "perhaps --num-proc is meant"},
      {{}, "  run "}};
  for (const auto& refused : cases) {
    const std::string& part = refused.second;
    CAPTURE(part);
    const Finished job = run_ronde(refused.first);
    CHECK(job.status == 2);
    CHECK(contains(job.err, part));
  }
}

TEST_CASE("run: options reach the ranks as settings, --env last") {
  const Finished job =
      run_ronde({"run", "--timeline", "t.json", "--backend", "shm", "--algorithm", "ring", "--env",
                 "GREETING=hello there", "--env", "RANK=9", "sh", "-c",
                 "echo $RONDE_BACKEND $RONDE_ALGORITHM $GREETING $RANK $RONDE_TIMELINE"});
  CHECK(contains(job.out, "[0] shm ring hello there 9 /"));
  CHECK(contains(job.out, "/t.json\n"));
}

TEST_CASE("run: --output-dir keeps each rank's output as it came") {
  const ScratchDirectory scratch;
  const std::string directory = (scratch.path() / "logs").string();
  const Finished job =
      run_ronde({"run", "-np", "2", "--output-dir", directory, "sh", "-c", "echo from $RANK"});
  CHECK(job.status == 0);
  CHECK(content_of(scratch.path() / "logs/rank.0.txt") == "from 0\n");
  CHECK(content_of(scratch.path() / "logs/rank.1.txt") == "from 1\n");
  CHECK(contains(job.out, "[1] from 1\n"));
}

TEST_CASE("run: --stdin chooses the rank that reads standard input") {
  const std::string job = fmt::format(
      "printf 'one\\ntwo\\n' | {} run -np 2 --stdin 1 sh -c 'while read x; do echo got $x; done'",
      RONDE_PROGRAM);
  const Finished end = Program({"sh", "-c", job}).wait();
  CHECK(end.status == 0);
  CHECK(end.out == "[1] got one\n[1] got two\n");
}

TEST_CASE("run: a rank that does not read its input does not hold up the job") {
  const std::string job =
      fmt::format("head -c 1000000 /dev/zero | {} run --stdin 0 true", RONDE_PROGRAM);
  CHECK(Program({"sh", "-c", job}).wait().status == 0);
}

TEST_CASE("run: a Python script runs with the Python that started the program") {
  const ScratchDirectory scratch;
  const std::string script = (scratch.path() / "train.py").string();
  std::ofstream(script) << "print";
  const std::string job = fmt::format("RONDE_PYTHON=echo {} run {} -np 3", RONDE_PROGRAM, script);
  CHECK(Program({"sh", "-c", job}).wait().out == fmt::format("[0] {} -np 3\n", script));
}

TEST_CASE("run: the folder of a timeline is made") {
  const ScratchDirectory scratch;
  const std::string folder = (scratch.path() / "new").string();
  const Finished job = run_ronde({"run", "--timeline", folder + "/t.json", "true"});
  CHECK(contains(job.err, "made the folder " + folder + " for --timeline"));
  CHECK(std::filesystem::is_directory(folder));
}

TEST_CASE("run: output that cannot be written is refused before anything starts") {
  const ScratchDirectory scratch;
  const std::string folder = scratch.path().string();
  const std::string file = folder + "/file", marker = folder + "/started";
  std::ofstream(file) << "x";
  const auto refused = [&](const std::string& option, const std::string& path) {
    const Finished job = run_ronde({"run", option, path, "touch", marker});
    CHECK(job.status == 2);
    CHECK_FALSE(std::filesystem::exists(marker));
    return job.err;
  };
  CHECK(contains(refused("--timeline", folder), "this is a folder; name a file in it"));
  CHECK(contains(refused("--timeline", file + "/t.json"), "this is a file; a folder is needed"));
  CHECK(contains(refused("--timeline", "/proc/ronde/t.json"), "cannot make the folder"));
  CHECK(contains(refused("--output-dir", file), "--output-dir " + file + ": this is a file"));
  CHECK(contains(refused("--output-dir", "/proc/ronde"), "cannot make the folder"));
}

TEST_CASE("run: a reader of our output that goes away ends the job") {
  const std::string command =
      fmt::format("{} run sh -c 'while :; do echo y; done' | head -n 1", RONDE_PROGRAM);
  const Finished pipeline = Program({"sh", "-c", command}).wait();
  CHECK(pipeline.status == 0);
  CHECK(pipeline.out == "[0] y\n");
}

TEST_CASE("run: help and version are there") {
  CHECK(run_ronde({"--version"}).out == "ronde " RONDE_VERSION "\n");
  const Finished help = run_ronde({"run", "--help"});
  CHECK(help.status == 0);
  CHECK(contains(help.out, "ronde run -np 2 python train.py"));
  CHECK(contains(run_ronde({"--help"}).out, "run"));
}

}  // namespace ronde
