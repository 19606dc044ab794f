#include "bindings/cli/launch/mpirun.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace ronde {
namespace {

/// The output of each rank, after feeding `bytes` in parts of `step`.
std::vector<std::string> sorted_output(const std::string& bytes, std::size_t step, int ranks,
                                       MpirunKind kind = MpirunKind::kOpenMpi4) {
  TaggedOutput tagged(kind);
  std::vector<std::string> texts(static_cast<std::size_t>(ranks) + 1);
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    for (const auto& piece : tagged.feed(bytes.substr(at, step))) {
      texts.at(static_cast<std::size_t>(piece.rank) + 1) += piece.text;
    }
  }
  return texts;
}

bool follows(const std::vector<std::string>& words, const std::string& a, const std::string& b) {
  const auto at = std::find(words.begin(), words.end(), a);
  return at != words.end() && at + 1 != words.end() && *(at + 1) == b;
}

TEST_CASE("mpirun's kind is read from its version") {
  CHECK(mpirun_kind_of("mpirun (Open MPI) 4.1.4\n\nReport bugs to") == MpirunKind::kOpenMpi4);
  CHECK(mpirun_kind_of("mpirun (Open MPI) 5.0.11\n") == MpirunKind::kOpenMpi5);
  CHECK(mpirun_kind_of("mpirun (Open MPI) 10.0.0rc1\n") == MpirunKind::kOpenMpi5);
  CHECK(mpirun_kind_of("HYDRA build details:\n    Version: 5.0.2\n") == MpirunKind::kMpich);
  CHECK(mpirun_kind_of("") == MpirunKind::kOpenMpi4);
}

}  // namespace

TEST_CASE("mpirun's output is sorted by rank wherever it is cut") {
  const std::string bytes =
      "[1,0]<stdout>:one\n[1,1]<stdout>:10%\r[1,1]<stdout>:20%\r[1,0]<stdout>:[2,3] array\n"
      "mpirun says\n[1,1]<stderr>:[1,]<x> end";
  for (std::size_t step = 1; step <= bytes.size(); ++step) {
    CAPTURE(step);
    const auto texts = sorted_output(bytes, step, 2);
    CHECK(texts[0] == "mpirun says\n");
    CHECK(texts[1] == "one\n[2,3] array\n");
    CHECK(texts[2] == "10%\r20%\r[1,]<x> end");
  }
}

TEST_CASE("the blank that Open MPI 5 writes after a tag is no output of the rank") {
  const std::string bytes = "[1,0]<stdout>: one\n[1,0]<stdout>: \n[1,1]<stdout>:   two\n";
  for (std::size_t step = 1; step <= bytes.size(); ++step) {
    CAPTURE(step);
    const auto texts = sorted_output(bytes, step, 2, MpirunKind::kOpenMpi5);
    CHECK(texts[1] == "one\n\n");
    CHECK(texts[2] == "  two\n");
  }
}

TEST_CASE("MPICH's mpirun gets options of its own, and ssh's in a variable") {
  const MpirunSpec spec{.hosts = {{"node1", 0, 2}, {"node2", 2, 1}},
                        .command = {"train"},
                        .variables = {"RONDE_BACKEND"},
                        .ssh = {2222, "/key", {}, "/bin/ronde", ""},
                        .network_interface = "eth1,eth2",
                        .kind = MpirunKind::kMpich,
                        .arguments = {"-launcher-exec", "rsh"}};
  const auto words = mpirun_command(spec);
  REQUIRE(words.ok());
  CHECK(follows(*words, "-prepend-pattern", "[1,%r]<stdout>:"));
  CHECK(follows(*words, "-np", "3"));
  CHECK(follows(*words, "-hosts", "node1:2,node2:1"));
  CHECK(follows(*words, "-iface", "eth1"));
  CHECK(follows(*words, "-launcher-exec", "rsh"));
  for (const char* foreign : {"--tag-output", "--mca", "-x", "--allow-run-as-root"}) {
    CAPTURE(foreign);
    CHECK(std::find(words->begin(), words->end(), foreign) == words->end());
  }
  const auto variables = mpirun_environment(spec);
  REQUIRE(variables.ok());
  CHECK(*variables == EnvironmentList{"HYDRA_LAUNCHER_EXTRA_ARGS=-p 2222 -i /key"});
}

TEST_CASE("mpirun is told hosts, ranks, ssh's options and the program") {
  const auto words = mpirun_command({.hosts = {{"node1", 0, 2}, {"node2", 2, 1}},
                                     .command = {"train", "--epochs", "3"},
                                     .variables = {"RONDE_BACKEND"},
                                     .ssh = {2222, "/key", {"Compression=no"}, "/bin/ronde", ""},
                                     .network_interface = "eth1,eth2",
                                     .arguments = {"--mca", "plm_rsh_agent", "rsh"}});
  REQUIRE(words.ok());
  CHECK(follows(*words, "-np", "3"));
  CHECK(follows(*words, "-H", "node1:2,node2:1"));
  CHECK(follows(*words, "-x", "RONDE_BACKEND"));
  CHECK(follows(*words, "plm_rsh_args", "-p 2222 -i /key -o Compression=no"));
  CHECK(follows(*words, "btl_tcp_if_include", "eth1,eth2"));
  CHECK(follows(*words, "plm_rsh_agent", "rsh"));
  const std::vector<std::string> tail(words->end() - 5, words->end());
  CHECK(tail == std::vector<std::string>{"/bin/ronde", "run-mpi-rank", "train", "--epochs", "3"});
}

TEST_CASE("mpirun on this host alone gets no host list") {
  const auto words =
      mpirun_command({.hosts = {{"", 0, 2}}, .command = {"x"}, .ssh = {0, "", {}, "ronde", ""}});
  REQUIRE(words.ok());
  CHECK(std::find(words->begin(), words->end(), "-H") == words->end());
  CHECK(follows(*words, "-np", "2"));
}

TEST_CASE("another program in place of ssh is refused: mpirun would not use it") {
  const auto words = mpirun_command(
      {.hosts = {{"a", 0, 2}}, .command = {"x"}, .ssh = {0, "", {}, "ronde", "/my/shell"}});
  REQUIRE(!words.ok());
  CHECK(words.status().message().find("--remote-shell /my/shell") != std::string::npos);
}

TEST_CASE("a word with a blank for ssh is refused: mpirun would split it") {
  const auto words = mpirun_command(
      {.hosts = {{"a", 0, 2}}, .command = {"x"}, .ssh = {0, "/my key", {}, "ronde", ""}});
  REQUIRE(!words.ok());
  CHECK(words.status().message().find("/my key") != std::string::npos);
}

}  // namespace ronde
