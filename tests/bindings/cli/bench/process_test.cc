// `ronde bench` as users start it: its rows, its checks, its refusals. No figure is looked at.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/bindings/cli/program.h"

namespace ronde {
namespace {

using Rows = std::vector<nlohmann::json>;

/// Runs `ronde bench` with 20 repetitions and returns its JSON lines.
Rows bench(std::vector<std::string> arguments) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("ronde-bench-test-" + std::to_string(getpid()) + ".jsonl");
  arguments.insert(arguments.begin(), "bench");
  arguments.insert(arguments.end(), {"--repetitions", "20", "--json", path.string()});
  const Finished finished = run_ronde(std::move(arguments));
  CHECK_MESSAGE(finished.status == 0, finished.err);
  Rows rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) rows.push_back(nlohmann::json::parse(line));
  std::filesystem::remove(path);
  return rows;
}

/// Systems by size, after checking what every row must hold.
std::map<std::size_t, std::set<std::string>> systems_of(const Rows& rows, int np) {
  std::map<std::size_t, std::set<std::string>> systems;
  for (const auto& row : rows) {
    CHECK(row.size() == 11);
    CHECK(row["np"] == np);
    CHECK(row["correct"] == true);
    CHECK(row["p50_us"].get<double>() > 0);
    CHECK(row["p99_us"].get<double>() >= row["p50_us"].get<double>());
    systems[row["bytes"]].insert(row["system"].get<std::string>());
  }
  return systems;
}

TEST_CASE("a sweep has a row for each size and system") {
  const auto systems = systems_of(bench({"allreduce", "-np", "2", "--sizes", "4,100K"}), 2);
  const std::set<std::string> expected = {"ronde", "ronde-named", "memcpy"};
  CHECK(systems ==
        std::map<std::size_t, std::set<std::string>>{{4, expected}, {102'400, expected}});
}

TEST_CASE("a rank of a job measures in that job") {
  const auto in_job = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"run", "-np", "3", RONDE_PROGRAM, "bench"});
    return run_ronde(std::move(more));
  };
  const Finished measured = in_job({"--sizes", "4", "--repetitions", "20", "--mode", "named"});
  CHECK_MESSAGE(measured.status == 0, measured.err);
  CHECK(measured.out.find("allreduce of float32 over 3 ranks") != std::string::npos);
  const Finished refused = in_job({"-np", "2"});
  CHECK(refused.status == 2);
  CHECK(refused.err.find("--np=2, but this is a rank of a job of 3; leave --np out") !=
        std::string::npos);
}

TEST_CASE("peers that are not there are left out, with a line for each") {
  const std::string bench =
      fmt::format("PATH=/nowhere {} bench -np 2 --sizes 4 --repetitions 20 --mode raw --peers mpi",
                  RONDE_PROGRAM);
  const Finished finished = Program({"/bin/sh", "-c", bench}).wait();
  CHECK(finished.status == 0);
  CHECK(finished.err.starts_with("ronde bench: peer mpi is left out: "));
  CHECK(std::count(finished.err.begin(), finished.err.end(), '\n') == 1);
  CHECK(finished.out.find("memcpy") != std::string::npos);
}

TEST_CASE("MPI that was asked for by name and is not there has no substitute") {
  for (const char* command : {"bench --backend mpi --sizes 4", "run --backend mpi true"}) {
    const std::string job = fmt::format("PATH=/nowhere {} {}", RONDE_PROGRAM, command);
    const Finished finished = Program({"/bin/sh", "-c", job}).wait();
    CHECK(finished.status == 2);
    CHECK(finished.err.find("cannot run \"mpirun\": No such file or directory, which starts ranks "
                            "that use MPI: install Open MPI") != std::string::npos);
  }
}

TEST_CASE("output that cannot be written is refused before anything starts") {
  const std::string folder = std::filesystem::temp_directory_path().string();
  for (const char* option : {"--json", "--tune", "--timeline"}) {
    const Finished finished = run_ronde({"bench", "-np", "2", "--sizes", "4", option, folder});
    CHECK(finished.status == 2);
    CHECK(finished.out.empty());
    CHECK(finished.err.find(fmt::format("{} {}: this is a folder", option, folder)) !=
          std::string::npos);
  }
  const Finished missing = run_ronde({"bench", "--json", "/nonexistent/rows.jsonl"});
  CHECK(missing.status == 2);
  CHECK(missing.err.find("--json /nonexistent/rows.jsonl: there is no folder /nonexistent") !=
        std::string::npos);
}

TEST_CASE("a codec's row says what it saves and what it loses") {
  for (const std::string codec : {"int8", "topk", "powersgd", "auto"}) {
    const Rows rows = bench({"allreduce", "-np", "2", "--sizes", "256K", "--compression", codec});
    REQUIRE(rows.size() == 2);
    CHECK(rows[0]["algorithm"] == "dense");
    CHECK(rows[1]["algorithm"] == codec);
    CHECK(rows[1]["np"] == 2);
    if (codec == "auto") {  // ranks share memory
      CHECK(rows[1]["wire_bytes"] == 0);
      CHECK(rows[1]["error_norm"] == 0);
      continue;
    }
    CHECK(rows[1]["ratio"].get<double>() > 3);
    CHECK(rows[1]["error_norm"].get<double>() > 0);
    CHECK(rows[1]["error_norm"].get<double>() < (codec == "int8" ? 0.02 : 1.5));
    CHECK(rows[1]["compress_us"].get<double>() > 0);
    CHECK(rows[1]["decompress_us"].get<double>() > 0);
  }
}

TEST_CASE("a tuning is written, and doctor says what it changes") {
  const auto path = std::filesystem::temp_directory_path() /
                    ("ronde-tune-test-" + std::to_string(getpid()) + ".json");
  const Finished finished = run_ronde(
      {"bench", "-np", "2", "--sizes", "1K,64K", "--repetitions", "20", "--tune", path.string()});
  CHECK_MESSAGE(finished.status == 0, finished.err);
  CHECK(finished.out.find("allreduce, 2 ranks, 64 K: tree") != std::string::npos);
  std::ifstream file(path);
  const auto tuning = nlohmann::json::parse(file);
  CHECK(tuning["measured"]["ranks"] == 2);
  CHECK(tuning["rows"].size() >= 5);               // one for each collective that has a choice
  ::setenv("RONDE_TUNING_FILE", path.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  const Finished doctor = run_ronde({"doctor"});
  ::unsetenv("RONDE_TUNING_FILE");  // NOLINT(concurrency-mt-unsafe)
  CHECK(doctor.out.find("by " + path.string()) != std::string::npos);
  CHECK(doctor.out.find("(tuned)") != std::string::npos);
  std::filesystem::remove(path);
}

TEST_CASE("every collective is measured and found correct") {
  for (const char* collective :
       {"allgather", "broadcast", "reduce_scatter", "alltoall", "reduce", "gather", "scatter"}) {
    const Rows rows = bench({collective, "--np=3", "--sizes", "12K"});
    CHECK(systems_of(rows, 3).at(12'288).count("ronde") == 1);
    CHECK(rows.front()["collective"] == collective);
  }
}

TEST_CASE("every element type is summed right") {
  for (const char* dtype : {"uint8", "int64", "float16", "bfloat16", "float64", "bool"}) {
    const Rows rows = bench({"allreduce", "--dtype", dtype, "--sizes", "3K", "--mode", "async"});
    CHECK(systems_of(rows, 2).at(3072) == std::set<std::string>{"ronde-async", "memcpy"});
  }
}

TEST_CASE("averages and Adasum are measured, found correct, and named") {
  for (const std::string op : {"average", "adasum"}) {
    for (const std::string dtype : {"float16", "bfloat16", "float32", "float64"}) {
      const Rows rows = bench(
          {"allreduce", "--np=3", "--dtype", dtype, "--op", op, "--sizes", "3K", "--mode", "raw"});
      REQUIRE(rows.size() == 2);
      CHECK(rows[0]["op"] == op);
      CHECK(rows[0]["algorithm"] == (op == "adasum" ? "adasum over shm" : "shm"));
    }
  }
}

#if RONDE_HAVE_GLOO
TEST_CASE("Gloo takes its turn") {
  const Rows rows = bench({"allreduce", "--sizes", "4K", "--mode", "raw", "--peers", "gloo"});
  CHECK(systems_of(rows, 2).at(4096) == std::set<std::string>{"ronde", "gloo", "memcpy"});
}
#endif

#if RONDE_HAVE_MPI
TEST_CASE("Open MPI takes its turn in ranks that mpirun starts") {
  const Rows rows = bench({"allreduce", "--sizes", "4K", "--mode", "raw", "--peers", "mpi"});
  CHECK(systems_of(rows, 2).at(4096) == std::set<std::string>{"ronde", "mpi", "memcpy"});
}
#endif

TEST_CASE("many small tensors are submitted together") {
  const Rows rows = bench({"allreduce", "--mode", "many", "--count", "40", "--bytes", "1K"});
  CHECK(systems_of(rows, 2).at(40'960) == std::set<std::string>{"ronde-async", "ronde", "memcpy"});
}

TEST_CASE("a training step is played by priority and without") {
  const Rows rows = bench({"allreduce", "--mode", "step", "--dtype", "uint8"});
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["algorithm"] == "as submitted");
  CHECK(rows[1]["algorithm"] == "by priority");
  systems_of(rows, 2);
}

TEST_CASE("a model's gradients are replayed against one buffer of the same bytes") {
  const Rows rows = bench({"allreduce", "--mode", "replay", "--dtype", "uint8"});
  std::set<std::string> algorithms;
  for (const auto& row : rows) {
    CHECK(row["bytes"] == 25'557'032);
    algorithms.insert(row["algorithm"].get<std::string>());
  }
  CHECK(algorithms == std::set<std::string>{"161 gradients", "one buffer", "memcpy"});
}

TEST_CASE("wrong options end with status 2 and say what is allowed") {
  const Finished mode = run_ronde({"bench", "allreduce", "--mode", "quick"});
  CHECK(mode.status == 2);
  CHECK(mode.err.find("both, raw, named, async, many, replay, step") != std::string::npos);
  const Finished kind = run_ronde({"bench", "allreduces"});
  CHECK(kind.status == 2);
  CHECK(kind.err.find("allreduce") != std::string::npos);
}

}  // namespace
}  // namespace ronde
