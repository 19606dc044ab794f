// Which launcher's variables count, where several are set.
#include "core/base/launchers.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>

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
      return check_meeting_of_hosts(config_from(environment).value(), environment);
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

}  // namespace
}  // namespace ronde
