// The C API's table, on jobs of real processes.
#include "bindings/c/ronde_c.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cctype>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bindings/c/current.h"
#include "core/base/collective.h"
#include "core/base/dtype.h"
#include "tests/backends/net/processes.h"

extern "C" std::size_t submission_bytes_in_c(void);

namespace ronde {
namespace {

using net::all_good;
using net::rank_config;
using net::run_ranks;
using net::unique_job_id;

/// "bitand" as the header has it: RONDE_BIT_AND.
std::string enumerator_of(std::string_view name) {
  std::string text = "RONDE_";
  if (name.starts_with("bit")) {
    text += "BIT_";
    name.remove_prefix(3);
  }
  for (const char c : name) text += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

/// One of the core's tables as an enumeration of the header.
template <typename Table>
std::string enumeration_of(const std::string& type, const Table& table) {
  std::string text = "typedef enum " + type + " {";
  for (const auto& row : table) {
    if (text.back() != '{') text += ',';
    text += "\n  " + enumerator_of(row.name) + " = " + std::to_string(static_cast<int>(row.value));
  }
  return text + "\n} " + type + ";\n";
}

/// The results of an operation's callbacks.
struct Ending {
  std::vector<float> gathered;
  std::vector<std::int64_t> recv_splits;
  ronde_error error{};
  int last_joined = -1;
  std::atomic<int> calls{0};

  void wait() const {
    while (calls.load() == 0) std::this_thread::yield();
  }
};

void* allocate(void* context, std::size_t, const std::int64_t* shape, std::int32_t) {
  auto* ending = static_cast<Ending*>(context);
  ending->gathered.resize(static_cast<std::size_t>(shape[0]));
  return ending->gathered.data();
}

void note_end(void* context, const ronde_outcome* outcome) {
  auto* ending = static_cast<Ending*>(context);
  if (outcome->error != nullptr) ending->error = *outcome->error;
  ending->recv_splits.assign(outcome->recv_splits,
                             outcome->recv_splits + outcome->recv_split_count);
  ending->last_joined = outcome->last_joined;
  ending->calls.fetch_add(1);
}

/// One that gives its reference to the job back first.
struct Releasing : Ending {
  const ronde_api* api = nullptr;
  ronde_job* job = nullptr;
};

void release_and_note_end(void* context, const ronde_outcome* outcome) {
  const auto* ending = static_cast<Releasing*>(static_cast<Ending*>(context));
  ending->api->release(ending->job);
  note_end(context, outcome);
}

ronde_submission submission_of(ronde_collective kind, const char* name, const ronde_tensor* tensor,
                               Ending& ending) {
  ronde_submission submission{};
  submission.struct_bytes = sizeof submission;
  submission.collective = kind;
  submission.name = name;
  submission.tensors = tensor;
  submission.tensor_count = tensor == nullptr ? 0 : 1;
  submission.root = -1;
  submission.prescale = submission.postscale = 1;
  submission.allocate = allocate;
  submission.done = note_end;
  submission.context = &ending;
  return submission;
}

/// Runs `body` as every rank of a job that C finds as the current one.
void run_job(int size, const std::function<int(const ronde_api&, ronde_job*, int)>& body) {
  const std::string id = unique_job_id();
  CHECK(run_ranks(size, [&](int rank) {
          auto runtime = Runtime::create(rank_config(id, rank, size));
          RONDE_CHILD_REQUIRE(runtime.ok());
          set_current_runtime(std::move(runtime).value());
          const ronde_api& api = *ronde_c_api(RONDE_C_VERSION);
          ronde_job* job = api.current();
          RONDE_CHILD_REQUIRE(job != nullptr);
          const int result = body(api, job, rank);
          api.shutdown(job);
          RONDE_CHILD_REQUIRE(api.current() == nullptr);
          api.release(job);
          return result;
        }) == all_good(size));
}

}  // namespace

TEST_CASE("C API: the header means the same to C, and old versions are served") {
  CHECK(submission_bytes_in_c() == sizeof(ronde_submission));
  CHECK(ronde_c_api(RONDE_C_VERSION)->version == RONDE_C_VERSION);
  CHECK(ronde_c_api(RONDE_C_VERSION + 1) == nullptr);
}

TEST_CASE("C API: sums, gathers and alltoall give their results through callbacks") {
  run_job(2, [](const ronde_api& api, ronde_job* job, int rank) {
    RONDE_CHILD_REQUIRE(api.rank(job) == rank && api.size(job) == 2);
    RONDE_CHILD_REQUIRE(api.local_rank(job) == rank && api.local_size(job) == 2);
    std::vector<float> values(4, static_cast<float>(rank + 1));
    const std::int64_t shape[] = {4};
    ronde_tensor tensor{RONDE_FLOAT32, 1, shape, values.data(), values.data()};
    Ending sum;
    auto submission = submission_of(RONDE_ALLREDUCE, "sum", &tensor, sum);
    RONDE_CHILD_REQUIRE(api.submit(job, &submission, nullptr) == RONDE_OK);
    sum.wait();
    RONDE_CHILD_REQUIRE(sum.error.code == RONDE_OK && values[3] == 3);

    tensor.out = nullptr;
    Ending gather;
    submission = submission_of(RONDE_ALLGATHER, "gather", &tensor, gather);
    RONDE_CHILD_REQUIRE(api.submit(job, &submission, nullptr) == RONDE_OK);
    gather.wait();
    RONDE_CHILD_REQUIRE(gather.gathered == std::vector<float>(8, 3));

    const std::int64_t splits[] = {1, 3};
    Ending exchange;
    submission = submission_of(RONDE_ALLTOALL, "exchange", &tensor, exchange);
    submission.splits = splits;
    submission.split_count = 2;
    RONDE_CHILD_REQUIRE(api.submit(job, &submission, nullptr) == RONDE_OK);
    exchange.wait();
    RONDE_CHILD_REQUIRE(exchange.recv_splits == std::vector<std::int64_t>(2, rank == 0 ? 1 : 3));

    Ending join;
    submission = submission_of(RONDE_JOIN, "", nullptr, join);
    RONDE_CHILD_REQUIRE(api.submit(job, &submission, nullptr) == RONDE_OK);
    join.wait();
    RONDE_CHILD_REQUIRE(join.last_joined >= 0);
    return 0;
  });
}

TEST_CASE("C API: arguments that cannot be are refused, and the job goes on") {
  run_job(2, [](const ronde_api& api, ronde_job* job, int) {
    float values[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    const std::int64_t shape[] = {4};
    const std::int64_t huge[] = {std::int64_t{1} << 40, std::int64_t{1} << 40};
    const ronde_tensor good{RONDE_FLOAT32, 1, shape, values, values};
    Ending ending;
    const auto refuses = [&](ronde_tensor tensor, auto change, const char* part) {
      auto submission = submission_of(RONDE_ALLREDUCE, "w", &tensor, ending);
      change(submission);
      ronde_error error{};
      const bool refused = api.submit(job, &submission, &error) == RONDE_INVALID_ARGUMENT;
      if (refused && std::string(error.text).find(part) != std::string::npos) return true;
      std::fprintf(stderr, "not \"%s\": code %d, %s\n", part, error.code, error.text);
      return false;
    };
    const auto same = [](ronde_submission&) {};
    using Tensor = ronde_tensor;
    RONDE_CHILD_REQUIRE(refuses(Tensor{99, 1, shape, values, values}, same, "99"));
    RONDE_CHILD_REQUIRE(refuses(Tensor{7, -1, shape, values, values}, same, "-1"));
    RONDE_CHILD_REQUIRE(refuses(Tensor{7, 65, shape, values, values}, same, "0 to 64"));
    RONDE_CHILD_REQUIRE(refuses(Tensor{7, 1, nullptr, values, values}, same, "null"));
    RONDE_CHILD_REQUIRE(refuses(Tensor{7, 2, huge, values, values}, same, "too many elements"));
    RONDE_CHILD_REQUIRE(refuses(Tensor{7, 1, shape, nullptr, values}, same, "null address"));
    RONDE_CHILD_REQUIRE(refuses(Tensor{7, 1, shape, values, values + 2}, same, "overlaps"));
    const auto no_memory = [](ronde_submission& one) { one.allocate = nullptr; };
    RONDE_CHILD_REQUIRE(refuses(Tensor{7, 1, shape, values, nullptr}, no_memory, "out is null"));
    const auto no_list = [](ronde_submission& one) { one.tensors = nullptr; };
    RONDE_CHILD_REQUIRE(refuses(good, no_list, "null pointer"));
    const auto many = [](ronde_submission& one) { one.tensor_count = ~std::size_t{0}; };
    RONDE_CHILD_REQUIRE(refuses(good, many, "tensor_count"));
    const std::int64_t splits[] = {4};
    const auto many_splits = [&](ronde_submission& one) {
      one.splits = splits;
      one.split_count = ~std::size_t{0};
    };
    RONDE_CHILD_REQUIRE(refuses(good, many_splits, "split_count"));
    const auto no_kind = [](ronde_submission& one) { one.collective = -1; };
    RONDE_CHILD_REQUIRE(refuses(good, no_kind, "collective -1"));
    const auto no_op = [](ronde_submission& one) { one.op = 77; };
    RONDE_CHILD_REQUIRE(refuses(good, no_op, "op 77"));

    ronde_error error{};
    RONDE_CHILD_REQUIRE(api.submit(job, nullptr, &error) == RONDE_INVALID_ARGUMENT);
    RONDE_CHILD_REQUIRE(api.submit(nullptr, nullptr, &error) == RONDE_INVALID_ARGUMENT);
    RONDE_CHILD_REQUIRE(api.add_set(job, nullptr, 2, &error) == -1);
    RONDE_CHILD_REQUIRE(api.add_set(job, &error.rank, -2, &error) == -1);
    RONDE_CHILD_REQUIRE(api.set_ranks(job, 0, nullptr, 2, &error) == -1);
    RONDE_CHILD_REQUIRE(api.set_ranks(job, 0, &error.rank, -1, &error) == -1);
    RONDE_CHILD_REQUIRE(api.set_ranks(job, 0, nullptr, 0, &error) == 2);
    RONDE_CHILD_REQUIRE(ending.calls.load() == 0 && values[0] == 1);

    auto submission = submission_of(RONDE_ALLREDUCE, "w", &good, ending);
    RONDE_CHILD_REQUIRE(api.submit(job, &submission, nullptr) == RONDE_OK);
    ending.wait();
    RONDE_CHILD_REQUIRE(ending.error.code == RONDE_OK && values[3] == 2 && values[4] == 1);
    return 0;
  });
}

TEST_CASE("C API: averages are weighted, and weights that are all 0 are an error on every rank") {
  run_job(2, [](const ronde_api& api, ronde_job* job, int rank) {
    const std::int64_t shape[] = {4};
    for (int step = 1; step < 4; ++step) {
      std::vector<float> values(4, rank == 0 ? 2.0F : 6.0F);
      ronde_tensor tensor{RONDE_FLOAT32, 1, shape, values.data(), values.data()};
      const double weight = rank == 0 ? step : 4.0 - step;
      Ending mean;
      auto submission = submission_of(RONDE_ALLREDUCE, "mean", &tensor, mean);
      submission.op = RONDE_AVERAGE;
      submission.weight = &weight;
      RONDE_CHILD_REQUIRE(api.submit(job, &submission, nullptr) == RONDE_OK);
      mean.wait();
      RONDE_CHILD_REQUIRE(mean.error.code == RONDE_OK);
      RONDE_CHILD_REQUIRE(values[3] == static_cast<float>(6 - step));
    }
    std::vector<float> values(4);
    ronde_tensor tensor{RONDE_FLOAT32, 1, shape, values.data(), values.data()};
    const double nothing = 0;
    Ending failed;
    auto submission = submission_of(RONDE_ALLREDUCE, "mean", &tensor, failed);
    submission.op = RONDE_AVERAGE;
    submission.weight = &nothing;
    RONDE_CHILD_REQUIRE(api.submit(job, &submission, nullptr) == RONDE_OK);
    failed.wait();
    RONDE_CHILD_REQUIRE(failed.error.code == RONDE_INVALID_ARGUMENT);
    return 0;
  });
}

TEST_CASE(
    "C API: a submission that its caller helps with may end, and release the job, in submit") {
  run_job(2, [](const ronde_api& api, ronde_job*, int rank) {
    for (int i = 0; i < 200; ++i) {
      std::vector<float> values(4, static_cast<float>(rank + 1));
      const std::int64_t shape[] = {4};
      ronde_tensor tensor{RONDE_FLOAT32, 1, shape, values.data(), values.data()};
      Releasing ending;
      ending.api = &api;
      ending.job = api.current();
      auto submission = submission_of(RONDE_ALLREDUCE, "helped", &tensor, ending);
      submission.done = release_and_note_end;
      submission.help_microseconds = i % 2 == 0 ? 1000000 : -1;  // at most 1000, at least none
      RONDE_CHILD_REQUIRE(api.submit(ending.job, &submission, nullptr) == RONDE_OK);
      ending.wait();
      RONDE_CHILD_REQUIRE(ending.error.code == RONDE_OK && values[0] == 3);
    }
    return 0;
  });
}

TEST_CASE("C API: a sum is compressed as asked, and callers of version 1 are served") {
  run_job(2, [](const ronde_api& api, ronde_job* job, int rank) {
    std::vector<float> values(64, rank == 0 ? 1.0F : 0.0F);
    values[0] = 1e6F;  // beyond the range of fp16
    const std::int64_t shape[] = {64};
    ronde_tensor tensor{RONDE_FLOAT32, 1, shape, values.data(), values.data()};
    Ending rounded;
    auto submission = submission_of(RONDE_ALLREDUCE, "rounded", &tensor, rounded);
    submission.compression = "fp16";
    RONDE_CHILD_REQUIRE(api.submit(job, &submission, nullptr) == RONDE_OK);
    rounded.wait();
    RONDE_CHILD_REQUIRE(rounded.error.code == RONDE_OK && values[0] < 2e6F && values[1] == 1);

    Ending plain;
    values[0] = 1e6F;
    submission = submission_of(RONDE_ALLREDUCE, "plain", &tensor, plain);
    submission.struct_bytes = offsetof(ronde_submission, compression);
    submission.compression = "of no such version";
    RONDE_CHILD_REQUIRE(api.submit(job, &submission, nullptr) == RONDE_OK);
    plain.wait();
    RONDE_CHILD_REQUIRE(plain.error.code == RONDE_OK && values[0] == 2e6F);

    ronde_error error{};
    submission = submission_of(RONDE_ALLREDUCE, "unknown", &tensor, plain);
    submission.compression = "zip";
    RONDE_CHILD_REQUIRE(api.submit(job, &submission, &error) == RONDE_INVALID_ARGUMENT);
    RONDE_CHILD_REQUIRE(std::string(error.text).find("zip") != std::string::npos);
    return 0;
  });
}

TEST_CASE("C API: disagreements and bad values are errors with code and text") {
  run_job(2, [](const ronde_api& api, ronde_job* job, int rank) {
    std::vector<float> values(4, 1);
    const std::int64_t shape[] = {3 + rank};
    ronde_tensor tensor{RONDE_FLOAT32, 1, shape, values.data(), values.data()};
    Ending ending;
    auto submission = submission_of(RONDE_ALLREDUCE, "differs", &tensor, ending);
    RONDE_CHILD_REQUIRE(api.submit(job, &submission, nullptr) == RONDE_OK);
    ending.wait();
    RONDE_CHILD_REQUIRE(ending.error.code == RONDE_MISMATCH && ending.error.rank == -1);
    RONDE_CHILD_REQUIRE(std::string(ending.error.text).find("differs") != std::string::npos);

    Ending traced;
    const std::int64_t same_shape[] = {3};
    ronde_tensor same{RONDE_FLOAT32, 1, same_shape, values.data(), values.data()};
    auto part = submission_of(RONDE_ALLREDUCE, "traced", &same, traced);
    part.program = rank == 0 ? "a graph" : "another graph";
    RONDE_CHILD_REQUIRE(api.submit(job, &part, nullptr) == RONDE_OK);
    traced.wait();
    RONDE_CHILD_REQUIRE(traced.error.code == RONDE_MISMATCH);
    RONDE_CHILD_REQUIRE(std::string(traced.error.text).find("another graph") != std::string::npos);

    ronde_error error{};
    tensor.dtype = 99;
    RONDE_CHILD_REQUIRE(api.submit(job, &submission, &error) == RONDE_INVALID_ARGUMENT);
    RONDE_CHILD_REQUIRE(std::string(error.text).find("99") != std::string::npos);
    tensor.dtype = RONDE_FLOAT32;
    submission.blocks = 3;
    RONDE_CHILD_REQUIRE(api.submit(job, &submission, &error) == RONDE_INVALID_ARGUMENT);
    RONDE_CHILD_REQUIRE(std::string(error.text).find("blocks 3") != std::string::npos);
    submission.struct_bytes = 8;
    RONDE_CHILD_REQUIRE(api.submit(job, &submission, &error) == RONDE_INVALID_ARGUMENT);
    RONDE_CHILD_REQUIRE(ending.calls.load() == 1);
    return 0;
  });
}

TEST_CASE("C API: ranks that wait for each other are told") {
  run_job(2, [](const ronde_api& api, ronde_job* job, int rank) {
    float value = 1;
    ronde_tensor tensor{RONDE_FLOAT32, 0, nullptr, &value, &value};
    Ending ending;
    auto submission = submission_of(RONDE_ALLREDUCE, rank == 0 ? "" : "graph", &tensor, ending);
    submission.blocks = rank == 0 ? RONDE_BLOCKS_EVERYTHING : RONDE_BLOCKS_UNNAMED;
    RONDE_CHILD_REQUIRE(api.submit(job, &submission, nullptr) == RONDE_OK);
    ending.wait();
    RONDE_CHILD_REQUIRE(ending.error.code == RONDE_MISMATCH);
    RONDE_CHILD_REQUIRE(std::string(ending.error.text).find("wait for each other") !=
                        std::string::npos);
    return 0;
  });
}

TEST_CASE("C API: an operation that nobody waits for blocks nothing") {
  run_job(2, [](const ronde_api& api, ronde_job* job, int rank) {
    float left = 1;
    float value = 1;
    ronde_tensor unfinished{RONDE_FLOAT32, 0, nullptr, &left, &left};
    Ending late;
    auto graph = submission_of(RONDE_ALLREDUCE, "cancelled", &unfinished, late);
    graph.blocks = RONDE_BLOCKS_UNNAMED;
    ronde_tensor tensor{RONDE_FLOAT32, 0, nullptr, &value, &value};
    Ending ending;
    auto unnamed = submission_of(RONDE_ALLREDUCE, "", &tensor, ending);
    unnamed.blocks = RONDE_BLOCKS_EVERYTHING;
    if (rank == 1) {
      RONDE_CHILD_REQUIRE(api.submit(job, &graph, nullptr) == RONDE_OK);
      api.clear_blocked();
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // the other looks after 1 s
    }
    RONDE_CHILD_REQUIRE(api.submit(job, &unnamed, nullptr) == RONDE_OK);
    ending.wait();
    RONDE_CHILD_REQUIRE(ending.error.code == RONDE_OK && value == 2);
    if (rank == 0) RONDE_CHILD_REQUIRE(api.submit(job, &graph, nullptr) == RONDE_OK);
    late.wait();
    return 0;
  });
}

TEST_CASE("C API: a set without this rank is a bad argument, not a job that is over") {
  run_job(2, [](const ronde_api& api, ronde_job* job, int rank) {
    const std::int32_t members[] = {0};
    const std::int32_t set = api.add_set(job, members, 1, nullptr);
    float value = 1;
    ronde_tensor tensor{RONDE_FLOAT32, 0, nullptr, &value, &value};
    Ending ending;
    auto submission = submission_of(RONDE_ALLREDUCE, "alone", &tensor, ending);
    submission.set = set;
    ronde_error error{};
    const std::int32_t code = api.submit(job, &submission, &error);
    RONDE_CHILD_REQUIRE(code == (rank == 0 ? RONDE_OK : RONDE_INVALID_ARGUMENT));
    if (rank == 0) ending.wait();
    return 0;
  });
}

TEST_CASE("C API: the header has the core's enumerations") {
  std::ifstream file(RONDE_C_HEADER);
  const std::string header{std::istreambuf_iterator<char>(file), {}};
  const auto holds = [&](const std::string& enumeration) {
    INFO("ronde_c.h needs:\n", enumeration);
    CHECK(header.find(enumeration) != std::string::npos);
  };
  holds(enumeration_of("ronde_collective", kCollectives));
  holds(enumeration_of("ronde_op", kReduceOps));
  holds(enumeration_of("ronde_dtype", kDTypes));
}

TEST_CASE("C API: process sets are made, asked and removed") {
  run_job(3, [](const ronde_api& api, ronde_job* job, int) {
    const std::int32_t members[] = {0, 2};
    ronde_error error{};
    const std::int32_t set = api.add_set(job, members, 2, &error);
    RONDE_CHILD_REQUIRE(set > 0);
    std::int32_t ranks[2] = {-1, -1};
    RONDE_CHILD_REQUIRE(api.set_ranks(job, set, ranks, 2, &error) == 2 && ranks[1] == 2);
    RONDE_CHILD_REQUIRE(api.remove_set(job, set, &error) == RONDE_OK);
    RONDE_CHILD_REQUIRE(api.set_ranks(job, set, ranks, 2, &error) == -1);
    RONDE_CHILD_REQUIRE(error.code == RONDE_INVALID_ARGUMENT);
    return 0;
  });
}

}  // namespace ronde
