// `ronde run` on hosts that are started by other hosts, with real processes on this one.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/bindings/cli/program.h"
#include "tests/support/contains.h"
#include "tests/timeline/scratch.h"

namespace ronde {

using test::contains;

namespace {

/// Seven hosts that a script pretends to reach. Two are started by one process at most.
struct SevenHosts {
  /// `refusal`: a shell command that may refuse, where BY tries to reach HOST.
  explicit SevenHosts(const std::string& refusal = "") {
    std::ofstream(shell) << "#!/bin/sh\nBY=${HOST:-launcher} HOST=$1\nexport BY HOST\n"
                         << refusal << "\necho $BY to $HOST >> " << log.string()
                         << "\nRONDE_AGENT_ADDRESS=127.0.0.1 exec sh -c \"$2\"\n";
    std::filesystem::permissions(shell, std::filesystem::perms::owner_all);
  }
  Finished run(const std::string& script) const {
    return run_ronde({"run", "--remote-shell", shell, "--agent-fan-out", "2", "-H",
                      "h1:1,h2:1,h3:1,h4:1,h5:1,h6:1,h7:1", "--", "sh", "-c", script});
  }
  /// The hosts that each host reached, in alphabetical order.
  [[nodiscard]] std::vector<std::string> reached() const {
    std::vector<std::string> lines;
    std::ifstream file(log);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    std::sort(lines.begin(), lines.end());
    return lines;
  }
  const ScratchFolder scratch;
  const std::filesystem::path shell = scratch.file("shell");
  const std::filesystem::path log = scratch.file("log");
};

}  // namespace

TEST_CASE("run: hosts start further hosts where there are many") {
  const SevenHosts hosts;
  const Finished job = hosts.run("echo $RANK on $HOST; cat < /dev/zero | head -c 300000 | wc -c");
  INFO(job.err);
  CHECK(job.status == 0);
  for (int rank = 0; rank < 7; ++rank) {
    CHECK(contains(job.out, fmt::format("[{}] {} on h{}\n", rank, rank, rank + 1)));
    CHECK(contains(job.out, fmt::format("[{}] 300000\n", rank)));
  }
  CHECK(hosts.reached() == std::vector<std::string>{"h1 to h3", "h1 to h5", "h2 to h4", "h2 to h6",
                                                    "h3 to h7", "launcher to h1",
                                                    "launcher to h2"});
}

TEST_CASE("run: hosts that others cannot reach are started from here") {
  const SevenHosts hosts("if [ $BY = h1 ]; then exit 255; fi");
  const Finished job = hosts.run("echo $RANK on $HOST");
  INFO(job.err);
  CHECK(job.status == 0);
  CHECK(contains(job.out, "[4] 4 on h5\n"));
  CHECK(contains(job.out, "[6] 6 on h7\n"));
  const auto reached = hosts.reached();
  CHECK(std::count(reached.begin(), reached.end(), "launcher to h5") == 1);
}

TEST_CASE("run: a rank that fails behind other hosts ends the job with its status") {
  const SevenHosts hosts;
  const Finished job = hosts.run("if [ $RANK = 6 ]; then exit 7; fi; sleep 60");
  CHECK(job.status == 7);
  CHECK(contains(job.err, "rank 6"));
}

TEST_CASE("run: a lost agent ends the job, and the agents behind it") {
  const SevenHosts hosts;
  const Finished job = hosts.run("if [ $RANK = 0 ]; then sleep 0.3; kill -9 $PPID; fi; sleep 60");
  INFO(job.err);
  CHECK(job.status == 1);
  CHECK(contains(job.err, "h1"));
}

}  // namespace ronde
