// Which launcher's variables count, where several are set.
#include "core/base/settings/launchers.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/core/base/environment.h"

namespace ronde {

using test::environment_of;
using test::joined;
using test::Variables;

namespace {

Config launched(const Variables& variables) {
  Config config;
  REQUIRE(read_launched_job(config, environment_of(variables)).ok());
  return config;
}

/// Task 1 of 2, as Slurm 22.05 sets its variables.
const Variables kSlurm = {
    {"SLURM_JOB_ID", "17"},        {"SLURM_STEP_ID", "0"},        {"SLURM_PROCID", "1"},
    {"SLURM_NTASKS", "2"},         {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_LOCALID", "0"},
    {"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_STEP_NODELIST", "n1"}, {"SLURM_CLUSTER_NAME", "ronde"}};

TEST_CASE("launchers: mpirun inside srun describes the ranks") {
  const Config config =
      launched(joined(kSlurm, {{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}}));
  CHECK(config.rank == 3);
  CHECK(config.size == 4);
}

TEST_CASE("launchers: torchrun inside srun describes the ranks") {
  const Variables torchrun = {{"RANK", "3"}, {"WORLD_SIZE", "4"}};
  CHECK(launched(joined(joined(kSlurm, torchrun), {{"TORCHELASTIC_RUN_ID", "7"}})).rank == 3);
  CHECK(launched(joined(kSlurm, torchrun)).rank == 1);  // exported by a script
  CHECK(launched(joined(joined(kSlurm, torchrun), {{"LOCAL_RANK", "1"}})).rank == 3);
  const Variables same = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}};
  CHECK(launched(joined(kSlurm, same)).job_id.starts_with("slurm-"));
}

TEST_CASE("launchers: PMI's variables count unless Slurm has set them") {
  const Variables pmi = {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}};
  CHECK(launched(joined(kSlurm, pmi)).rank == 3);  // MPICH's mpirun inside srun
  const Variables pmi2 = {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMI_JOBID", "17.0"}};
  CHECK(launched(joined(kSlurm, pmi2)).job_id.starts_with("slurm-"));
  CHECK(launched(pmi).rank == 3);
}

TEST_CASE("launchers: ranks of mpirun on several hosts need a rendezvous") {
  const Variables mpi = {{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}};
  const Variables hydra = {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}};
  const std::pair<Variables, std::string> launchers[] = {{mpi, "OMPI_COMM_WORLD_LOCAL_SIZE"},
                                                         {hydra, "MPI_LOCALNRANKS"}};
  for (const auto& launcher : launchers) {
    const Variables& variables = launcher.first;
    const std::string& local_size = launcher.second;
    const auto status = [&](const Variables& more) {
      const Environment environment = environment_of(joined(variables, more));
      return check_rendezvous(config_from(environment).value(), environment);
    };
    CHECK(status({}).ok());
    CHECK(status({{local_size, "4"}}).ok());
    CHECK(status({{local_size, "2"}, {"RONDE_RENDEZVOUS", "n1:1"}}).ok());
    CHECK(status({{local_size, "2"}}).code() == Code::kInvalidArgument);
    CHECK(status({{local_size, "2"}}).message().starts_with("2 of the 4 ranks run on "));
  }
}

TEST_CASE("launchers: a process without a launcher is a job of one rank") {
  CHECK(launched({}).size == 1);
  CHECK_FALSE(describe_missing_launcher(environment_of({})));
}

TEST_CASE("launchers: a batch script without srun is a job of one rank, and told so") {
  const Variables batch = {{"SLURM_JOB_ID", "17"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}};
  CHECK(launched(batch).size == 1);
  const auto sentence = describe_missing_launcher(environment_of(batch));
  REQUIRE(sentence);
  CHECK(sentence->find("4 tasks") != std::string::npos);
  const Variables one = {{"SLURM_JOB_ID", "17"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}};
  CHECK_FALSE(describe_missing_launcher(environment_of(one)));
}

TEST_CASE("launchers: a rank that is no number is an error that names the variable") {
  for (const auto& [name, value] :
       Variables{{"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "x"}}) {
    Config config;
    const Status status =
        read_launched_job(config, environment_of(joined(kSlurm, {{name, value}})));
    CHECK(status.code() == Code::kInvalidArgument);
    CHECK(status.message().find(name) != std::string::npos);
  }
}

using Names = std::vector<std::string>;

/// Task 2 of 4 on two nodes, as Slurm 22.05 sets its variables.
Variables step(const Variables& more = {}) {
  const Variables all = {{"SLURM_JOB_ID", "17"},        {"SLURM_STEP_ID", "3"},
                         {"SLURM_PROCID", "2"},         {"SLURM_NTASKS", "4"},
                         {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_STEP_NODELIST", "n[1-2]"},
                         {"HOME", "/home/u"},           {"SLURM_SUBMIT_DIR", "/data/u"}};
  return joined(all, more);
}

Config read(const Variables& more = {}) {
  Config config;
  REQUIRE(read_slurm_step(config, environment_of(step(more))).ok());
  return config;
}

TEST_CASE("slurm: node lists are expanded as scontrol show hostnames does") {
  CHECK(*expand_nodelist("n[1-4,7],m01") == Names{"n1", "n2", "n3", "n4", "n7", "m01"});
  CHECK(*expand_nodelist("n[08-11]") == Names{"n08", "n09", "n10", "n11"});
  CHECK(*expand_nodelist("a[1-2]b[3,5]") == Names{"a1b3", "a1b5", "a2b3", "a2b5"});
  CHECK(*expand_nodelist("rack[1-2]-gpu") == Names{"rack1-gpu", "rack2-gpu"});
  CHECK(*expand_nodelist("node.example.org") == Names{"node.example.org"});
  CHECK(*expand_nodelist("n[099-101]") == Names{"n099", "n100", "n101"});
}

TEST_CASE("slurm: what is no node list is an error") {
  for (const char* list : {"", ",", "n[", "n]", "n[1", "n[]", "n[2-1]", "n[a]", "n[1-]", "a,,b",
                           "n[1-99999999]", "n[1-300]x[1-300]", "n[1--2]", "n[-1]", "n[1]]"}) {
    CAPTURE(list);
    CHECK(expand_nodelist(list).status().code() == Code::kInvalidArgument);
  }
}

TEST_CASE("slurm: counts are expanded") {
  CHECK(*expand_counts("2(x3),1") == std::vector<int>{2, 2, 2, 1});
  CHECK(*expand_counts("4") == std::vector<int>{4});
  for (const char* list : {"", "x", "2(x0)", "2(x", "2(3)", "2(x99999999)", "-1", "1,,2"}) {
    CAPTURE(list);
    CHECK_FALSE(expand_counts(list).ok());
  }
}

TEST_CASE("slurm: the tasks of two nodes meet on the first") {
  const Config config = read();
  CHECK(config.rank == 2);
  CHECK(config.size == 4);
  CHECK(config.rendezvous.starts_with("n1:"));
  CHECK(config.rendezvous_neighbour == "n2");
  CHECK(config.hands_out_secret);
  CHECK(config.shared_folders == Names{"/home/u", "/data/u"});
}

TEST_CASE("slurm: the tasks of one node need no rendezvous") {
  const Config config = read({{"SLURM_STEP_NODELIST", "n1"}});
  CHECK(config.rendezvous.empty());
  CHECK_FALSE(config.hands_out_secret);
  CHECK_FALSE(config.job_id.empty());
}

TEST_CASE("slurm: jobs, steps and attempts differ in name and port") {
  const Config config = read();
  CHECK(read().rendezvous == config.rendezvous);
  const Variables others = {{"SLURM_JOB_ID", "18"},
                            {"SLURM_STEP_ID", "4"},
                            {"SLURM_RESTART_COUNT", "1"},
                            {"SLURM_CLUSTER_NAME", "other"}};
  for (const auto& other : others) {
    const std::string& name = other.first;  // clang 14 captures no structured binding
    CAPTURE(name);
    CHECK(read({other}).job_id != config.job_id);
    CHECK(read({other}).rendezvous != config.rendezvous);
  }
}

TEST_CASE("slurm: ports that srun has reserved are used") {
  CHECK(read({{"SLURM_STEP_RESV_PORTS", "13000-13002"}}).rendezvous == "n1:13000,13001,13002");
  Config config;
  const Variables bad = step({{"SLURM_STEP_RESV_PORTS", "99999"}});
  CHECK(read_slurm_step(config, environment_of(bad)).message().find("SLURM_STEP_RESV_PORTS") !=
        std::string::npos);
}

TEST_CASE("slurm: what the user has set stays") {
  Config config;
  config.rendezvous = "10.0.0.1:4000";
  config.secret_file = "/home/u/secret";
  config.job_id = "mine";
  REQUIRE(read_slurm_step(config, environment_of(step())).ok());
  CHECK(config.rendezvous == "10.0.0.1:4000");
  CHECK(config.rendezvous_neighbour.empty());
  CHECK_FALSE(config.hands_out_secret);
  CHECK(config.job_id == "mine");
}

TEST_CASE("slurm: the hosts of a batch script are those of its allocation") {
  const Variables batch = {{"SLURM_JOB_ID", "17"},
                           {"SLURM_JOB_NODELIST", "n[1-2],m1"},
                           {"SLURM_TASKS_PER_NODE", "2(x2),1"}};
  CHECK(*slurm_hosts(environment_of(batch)) == "n1:2,n2:2,m1:1");
  CHECK(slurm_hosts(environment_of({}))->empty());
  CHECK(slurm_hosts(environment_of(joined(batch, step())))->empty());
  const Variables fewer = joined(batch, {{"SLURM_TASKS_PER_NODE", "2"}});
  CHECK(slurm_hosts(environment_of(fewer)).status().message().find("SLURM_TASKS_PER_NODE") == 0);
}

TEST_CASE("slurm: a node alone has the tasks of its allocation, or the ranks that are asked for") {
  const auto hosts = [](const Variables& more, int asked = 0) {
    const Variables one = {{"SLURM_JOB_ID", "17"}, {"SLURM_JOB_NODELIST", "n1"}};
    return *slurm_hosts(environment_of(joined(one, more)), asked);
  };
  const Variables tasks = {{"SLURM_TASKS_PER_NODE", "2"}, {"SLURM_NTASKS", "3"}};
  CHECK(hosts(tasks) == "n1:2");
  CHECK(hosts(tasks, 4) == "n1:4");
  CHECK(hosts(joined(tasks, {{"SLURMD_NODENAME", "n1"}})) == "localhost:2");
  CHECK(hosts({{"SLURM_NTASKS", "3"}}) == "n1:3");
  CHECK(hosts({{"SLURM_CPUS_ON_NODE", "8"}, {"SLURM_CPUS_PER_TASK", "3"}}) == "n1:2");
  CHECK(hosts({{"SLURM_CPUS_ON_NODE", "8"}}) == "n1:8");
  CHECK(hosts({}) == "n1:1");
  const auto bad =
      slurm_hosts(environment_of({{"SLURM_JOB_NODELIST", "n1"}, {"SLURM_NTASKS", "x"}}));
  CHECK(bad.status().message().find("SLURM_NTASKS") == 0);
}

TEST_CASE("slurm: neither a batch script nor salloc's shell is a task") {
  CHECK(slurm_step_name(environment_of(step())) == "17.3");
  Variables batch = step();
  batch.erase("SLURM_STEP_ID");
  CHECK_FALSE(slurm_step_name(environment_of(batch)));
  CHECK_FALSE(slurm_step_name(environment_of(step({{"SLURM_STEP_ID", "4294967290"}}))));
}

TEST_CASE("slurm: a node list that cannot be read is named") {
  Config config;
  const Variables bad = step({{"SLURM_STEP_NODELIST", "n[1"}});
  const Status status = read_slurm_step(config, environment_of(bad));
  CHECK(status.message().find("SLURM_STEP_NODELIST") != std::string::npos);
}

}  // namespace

using test::environment_of;
using test::joined;
using test::Variables;

}  // namespace ronde
