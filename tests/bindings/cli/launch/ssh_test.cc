#include "bindings/cli/launch/ssh.h"

#include <doctest/doctest.h>

#include "tests/timeline/scratch.h"

namespace ronde {

TEST_CASE("trace fetch: only ranks of other hosts whose file is not here are asked for") {
  const ScratchFolder scratch;
  const std::vector<HostRanks> hosts = {{"", 0, 1}, {"b", 1, 2}, {"c", 3, 1}};
  const std::vector<std::string> paths = {scratch.file("0"), scratch.write("1", "x"),
                                          scratch.file("2"), scratch.write("3", "x")};
  const auto elsewhere = files_elsewhere(hosts, paths);
  REQUIRE(elsewhere.size() == 1);
  CHECK(elsewhere.at("b") == std::vector<std::string>{paths[2]});
}

TEST_CASE("trace fetch: a host that cannot be reached is an error that names it") {
  const ScratchFolder scratch;
  SshOptions ssh;
  ssh.options = {"ConnectTimeout=1"};
  const Status status = fetch_files(ssh, "no-such-host.invalid", {scratch.file("x")});
  CHECK(status.code() == Code::kUnavailable);
}

TEST_CASE("agents: where the shell or ssh has failed, their end names the host and a remedy") {
  SshOptions ssh;
  ssh.remote_program = "/opt/ronde";
  const auto text = [&](int wait_status) {
    return describe_agent_end(ssh, "b", "ssh", wait_status);
  };
  CHECK(text(127 << 8) ==
        "ronde is not installed on b as /opt/ronde; install the same version there, or name its "
        "path by --remote-ronde");
  CHECK(text(255 << 8) ==
        "ssh exited with status 255; \"ssh b true\" must work without a password");
  CHECK(text(1 << 8) == "ssh exited with status 1");
  CHECK(text(9) == "ssh was killed by signal 9 (Killed)");
}

}  // namespace ronde
