#include "bindings/runtime/groups/tuning.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <functional>

#include "bindings/runtime/groups/agreements.h"
#include "tests/support/local_exchange.h"
#include "tests/support/run_ranks.h"

namespace ronde {
namespace {

const std::vector<SelectionRow> kRows = {
    {Collective::kAllreduce, "tree", 8192, 2},
    {Collective::kAllreduce, "ring", SelectionRow{}.max_bytes, 2},
    {Collective::kBroadcast, "chain"},
};

std::string complaint(const std::string& text) {
  const auto rows = parse_tuning(text, "t.json");
  return rows.ok() ? std::string("none") : rows.status().message();
}

/// A file that is gone when the test is.
struct File {
  explicit File(const std::string& text) { std::ofstream(path) << text; }
  ~File() { (void)std::remove(path.c_str()); }
  const std::string path = "tuning_test." + std::to_string(::getpid()) + ".json";
};

/// The rows of three ranks, whose settings `change` makes differ.
std::vector<Result<std::vector<SelectionRow>>> agree(
    const std::function<void(int rank, Config&)>& change) {
  const test::LocalJob job(3);
  std::vector<Result<std::vector<SelectionRow>>> results;
  for (int rank = 0; rank < 3; ++rank) results.emplace_back(std::vector<SelectionRow>());
  test::run_ranks(3, [&](int rank) {
    Config config;
    change(rank, config);
    const auto exchange = job.exchange(rank);
    auto agreed =
        agree_on_settings(config, {.rank = rank, .carried = {}, .backend = {}}, *exchange);
    results[static_cast<std::size_t>(rank)] =
        agreed.ok() ? Result(std::move(agreed->tuned)) : agreed.status();
  });
  return results;
}

}  // namespace

TEST_CASE("Tuning: what is written reads back") {
  const auto rows = parse_tuning(format_tuning(kRows, {"host \"a\"", 2, 2, "tcp"}), "t.json");
  REQUIRE(rows.ok());
  REQUIRE(rows->size() == kRows.size());
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    CHECK((*rows)[i].kind == kRows[i].kind);
    CHECK((*rows)[i].algorithm == kRows[i].algorithm);
    CHECK((*rows)[i].max_bytes == kRows[i].max_bytes);
    CHECK((*rows)[i].max_ranks == kRows[i].max_ranks);
  }
}

TEST_CASE("Tuning: a malformed file is an error that says where and what is allowed") {
  CHECK(complaint("{\n\"rows\": [,]}").find("line 2") != std::string::npos);
  CHECK(complaint("[]") == "tuning file t.json: there is no list \"rows\"");
  const auto row = [](const std::string& text) { return complaint("{\"rows\":[" + text + "]}"); };
  CHECK(row(R"({"collective":"allreduce","algorithm":"rign"})") ==
        "tuning file t.json: row 1: algorithm is \"rign\"; allowed: tree, halving_doubling, ring, "
        "double_tree, direct");
  CHECK(row(R"({"collective":"join","algorithm":"ring"})").find("collective is \"join\"") !=
        std::string::npos);
  CHECK(row(R"({"algorithm":"ring"})").find("collective is missing") != std::string::npos);
  CHECK(row(R"({"collective":"allreduce","algorithm":"ring","max_bytes":-1})")
            .find("max_bytes is -1; allowed: whole numbers from 1") != std::string::npos);
  CHECK(row(R"({"collective":"allreduce","algorithm":"ring","max_ranks":1e99})")
            .find("max_ranks is 1e+99") != std::string::npos);
  CHECK(row(R"({"collective":"allreduce","algorithm":"ring","min_bytes":1})")
            .find("min_bytes is 1; allowed: collective") != std::string::npos);
  CHECK(row("7").find("the row is 7") != std::string::npos);
}

TEST_CASE("Tuning: its rows come before the built-in table") {
  const auto chosen = [&](Collective kind, std::size_t bytes, int ranks) {
    return (*select_algorithm(kind, bytes, ranks, "", kRows))->name;
  };
  CHECK(chosen(Collective::kAllreduce, 8192, 2) == "tree");
  CHECK(chosen(Collective::kAllreduce, 8193, 2) == "ring");
  CHECK(chosen(Collective::kAllreduce, 8193, 3) == "halving_doubling");
  CHECK(chosen(Collective::kBroadcast, 1, 9) == "chain");
  CHECK(chosen(Collective::kAllgather, 1, 9) == "bruck");
  CHECK((*select_algorithm(Collective::kAllreduce, 1, 2, "direct", kRows))->name == "direct");
}

TEST_CASE("Shared settings: rank 0's tuning counts for all, nobody else's is read") {
  const File file(format_tuning(kRows, {}));
  const auto results = agree(
      [&](int rank, Config& config) { config.tuning_file = rank == 0 ? file.path : "/not/there"; });
  for (const auto& rows : results) {
    REQUIRE(rows.ok());
    CHECK(rows->size() == kRows.size());
  }
  for (const auto& rows : agree([](int, Config&) {})) CHECK(rows->empty());
}

TEST_CASE("Shared settings: a backend that one rank cannot use is the same error on all") {
  const test::LocalJob job(3);
  std::vector<Status> errors(3);
  test::run_ranks(3, [&](int rank) {
    JoiningRank mine{.rank = rank, .carried = {}, .backend = {}};
    if (rank == 1) mine.backend = {Code::kUnavailable, "backend nccl: there is no driver"};
    const auto exchange = job.exchange(rank);
    errors[static_cast<std::size_t>(rank)] =
        agree_on_settings(Config(), std::move(mine), *exchange).status();
  });
  for (const Status& error : errors) {
    CHECK(error.code() == Code::kUnavailable);
    CHECK(error.message() == "rank 1: backend nccl: there is no driver");
  }
}

TEST_CASE("Shared settings: a tuning that rank 0 cannot read is the same error on all") {
  for (const auto& rows : agree([](int, Config& config) { config.tuning_file = "/not/there"; })) {
    CHECK(rows.status().code() == Code::kInvalidArgument);
    CHECK(rows.status().message() == "tuning file /not/there: No such file or directory");
  }
  for (const auto& rows : agree([](int, Config& config) { config.tuning_file = "/"; })) {
    CHECK(rows.status().message() == "tuning file /: Is a directory");
  }
}

TEST_CASE("Shared settings: a difference is the same error on all and names both values") {
  const auto results = agree([](int rank, Config& config) {
    if (rank == 2) config.fusion_threshold_bytes = 0;
  });
  for (const auto& rows : results) {
    CHECK(rows.status().code() == Code::kMismatch);
    CHECK(rows.status().message() ==
          "RONDE_FUSION_THRESHOLD: rank 0 has \"134217728\", rank 2 has \"0\"; it must be the same "
          "on all ranks");
  }
}

TEST_CASE("Shared settings: ranks that would not all compare their first step fail alike") {
  const auto results = agree([](int rank, Config& config) {
    if (rank == 1) config.check_first_step = "off";
  });
  for (const auto& rows : results) {
    CHECK(rows.status().message() ==
          "RONDE_CHECK_FIRST_STEP: rank 0 has \"warn\", rank 1 has \"off\"; it must be the same "
          "on all ranks");
  }
}

TEST_CASE("Shared settings: ranks that would not all compare their replicas fail alike") {
  const auto steps = agree([](int rank, Config& config) {
    if (rank == 1) config.replica_check_steps = 10;
  });
  for (const auto& rows : steps) {
    CHECK(rows.status().message() ==
          "RONDE_REPLICA_CHECK_STEPS: rank 0 has \"0\", rank 1 has \"10\"; it must be the same on "
          "all ranks");
  }
  const auto actions = agree([](int rank, Config& config) {
    if (rank == 1) config.replica_check = "repair";
  });
  for (const auto& rows : actions) CHECK(rows.status().code() == Code::kMismatch);
}

}  // namespace ronde
