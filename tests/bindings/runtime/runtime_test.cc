// Whole jobs of real processes, through the runtime alone.
#include "bindings/runtime/runtime.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "bindings/runtime/groups/group_factory.h"
#include "bindings/runtime/groups/process_sets.h"
#include "bindings/runtime/timeline.h"
#include "tests/backends/net/processes.h"
#include "tests/bindings/runtime/sums.h"
#include "tests/timeline/scratch.h"

/// In a child process: ends it with a text that says what went wrong.
#define EXPECT(condition)                                                                 \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "rank %d: %s:%d: %s\n", rank, __FILE__, __LINE__, #condition); \
      return 1;                                                                           \
    }                                                                                     \
  } while (false)

namespace ronde {
namespace {

using net::rank_config;
using net::run_ranks;
using net::unique_job_id;

/// Runs `body` as every rank of a job; all must return 0, but for `victim`, which must be killed.
void run_job(int size, const std::function<int(Runtime&, int)>& body, int victim = -1) {
  const std::string job = unique_job_id();
  const auto codes = run_ranks(size, [&](int rank) {
    auto runtime = Runtime::create(rank_config(job, rank, size));
    if (!runtime.ok()) std::fprintf(stderr, "%s\n", runtime.status().to_string().c_str());
    EXPECT(runtime.ok());
    return body(**runtime, rank);
  });
  for (int rank = 0; rank < size; ++rank) {
    CHECK(codes[static_cast<std::size_t>(rank)] == (rank == victim ? -SIGKILL : 0));
  }
}

}  // namespace

TEST_CASE("Runtime: sums of all sizes are right at 1 to 4 processes") {
  for (const int size : {1, 2, 3, 4}) {
    run_job(size, [&](Runtime& runtime, int rank) {
      for (const std::size_t count : {1UL, 1000UL, 1000003UL}) {
        for (int i = 0; i < 20; ++i) {
          std::vector<float> values(count, static_cast<float>(rank + i));
          EXPECT(sum(runtime, kGlobalSet, "w" + std::to_string(count), values).ok());
          const int sum = size * i + size * (size - 1) / 2;
          const auto expected = static_cast<float>(sum);
          EXPECT(values.front() == expected && values.back() == expected);
        }
      }
      return 0;
    });
  }
}

TEST_CASE("Runtime: tensors in shared memory are reduced, and outlive the runtime") {
  for (const int size : {1, 3}) {
    run_job(size, [&](Runtime& runtime, int rank) {
      constexpr std::size_t kCount = 300'000;
      auto memory = runtime.groups().allocate(kCount * sizeof(float));
      EXPECT(memory.ok());
      auto* const values = reinterpret_cast<float*>(memory->get());
      EXPECT(values[0] == 0 && values[kCount - 1] == 0);
      std::fill_n(values, kCount, static_cast<float>(rank + 1));
      auto group = runtime.groups().open(runtime.process_sets().ranks(kGlobalSet).value());
      EXPECT(group.ok());
      Bundle bundle;
      bundle.kind = Collective::kAllreduce;
      BundleTensor tensor;
      tensor.in = tensor.out = values;
      tensor.shape = {static_cast<std::int64_t>(kCount)};
      bundle.tensors.push_back(tensor);
      EXPECT((*group)->run(bundle).ok());
      const int sum = size * (size + 1) / 2;
      const auto expected = static_cast<float>(sum);
      EXPECT(std::count(values, values + kCount, expected) == kCount);
      group->reset();
      runtime.shutdown();
      EXPECT(runtime.groups().allocate(1).status().code() == Code::kNotInitialized);
      EXPECT(values[kCount - 1] == expected);
      return 0;
    });
  }
}

TEST_CASE("Runtime: init, shutdown and init again work in one process") {
  const std::string job = unique_job_id();
  const auto codes = run_ranks(2, [&](int rank) {
    for (int i = 0; i < 5; ++i) {
      auto runtime = Runtime::create(rank_config(job + "-" + std::to_string(i), rank, 2));
      EXPECT(runtime.ok());
      std::vector<float> values = {1.0F};
      EXPECT(sum(**runtime, kGlobalSet, "w", values).ok());
      (*runtime)->shutdown();
      (*runtime)->shutdown();
      EXPECT(sum(**runtime, kGlobalSet, "w", values).code() == Code::kNotInitialized);
    }
    return 0;
  });
  for (const int code : codes) CHECK(code == 0);
}

TEST_CASE("Runtime: process sets are made, used, overlap and are removed") {
  run_job(3, [](Runtime& runtime, int rank) {
    const auto low = runtime.process_sets().add({1, 0});
    const auto high = runtime.process_sets().add({1, 2});
    if (!low.ok()) std::fprintf(stderr, "%s\n", low.status().to_string().c_str());
    if (!high.ok()) std::fprintf(stderr, "%s\n", high.status().to_string().c_str());
    EXPECT(low.ok() && high.ok());
    std::vector<float> values = {1.0F};
    if (rank <= 1) EXPECT(sum(runtime, *low, "w", values).ok());
    if (rank >= 1) EXPECT(sum(runtime, *high, "w", values).ok());
    EXPECT(values[0] == (rank == 0 ? 2.0F : 3.0F));
    EXPECT(runtime.process_sets().add({0, 1}).status().code() == Code::kInvalidArgument);
    if (rank == 2) {
      EXPECT(sum(runtime, *low, "w", values).code() == Code::kInvalidArgument);
    }
    EXPECT(runtime.process_sets().remove(*low).ok());
    EXPECT(!runtime.process_sets().remove(*low).ok());
    EXPECT(runtime.process_sets().ids().size() == 2);
    return 0;
  });
}

TEST_CASE("Runtime: sets that only their members know of are opened, used, left and closed") {
  run_job(3, [](Runtime& runtime, int rank) {
    std::vector<float> values(100, 1.0F);
    if (rank != 1) {  // rank 1 has no part in it
      for (int round = 0; round < 3; ++round) {
        const auto first = runtime.process_sets().open({2, 0}, {.name = "first"});
        const auto second =
            runtime.process_sets().open({0, 2}, {.name = "second"});  // the same ranks
        EXPECT(first.ok() && second.ok() && *first != *second);
        EXPECT(sum(runtime, *first, "", values).ok());
        EXPECT(sum(runtime, *second, "", values).ok());
        EXPECT(runtime.process_sets().close(*second).ok());
        EXPECT(runtime.process_sets().close(*first).ok());
        EXPECT(sum(runtime, *first, "", values).code() == Code::kInvalidArgument);
      }
      EXPECT(values[99] == 64.0F);
    }
    EXPECT(
        runtime.process_sets().open({0, 1, 2}, {.name = rank == 2 ? "b" : "a"}).status().code() ==
        Code::kMismatch);
    EXPECT(!runtime.process_sets().open({(rank + 1) % 3}, {}).ok());  // without this rank
    EXPECT(!runtime.process_sets().close(kGlobalSet).ok());
    const auto last = runtime.process_sets().open(
        {0, 1, 2}, {.name = "last", .stall_error = std::chrono::seconds(1)});
    EXPECT(last.ok());
    EXPECT(sum(runtime, *last, "", values).ok());
    if (rank == 0) {
      EXPECT(runtime.process_sets().close(*last).ok());
      return 0;
    }
    const Code code = sum(runtime, *last, "", values).code();  // rank 0 left, or does not come
    EXPECT(code == Code::kRankFailure || code == Code::kStalled);
    return 0;
  });
}

TEST_CASE("Runtime: ranks that ask for different process sets all get the same error") {
  run_job(2, [](Runtime& runtime, int rank) {
    const auto set = runtime.process_sets().add({rank});
    EXPECT(set.status().code() == Code::kMismatch);
    std::vector<float> values = {1.0F};
    EXPECT(sum(runtime, kGlobalSet, "after", values).ok());
    return 0;
  });
}

TEST_CASE("Runtime: a timeline has marks, steps, waits, and bundle numbers alike on all ranks") {
  const ScratchFolder scratch;
  run_job(2, [&](Runtime& runtime, int rank) {
    runtime.timeline().mark("before the timeline, so lost");
    runtime.timeline().mark_step();
    EXPECT(runtime.timeline().start(scratch.file("t.json")).ok());
    runtime.timeline().mark("halfway");
    runtime.timeline().begin_mark("forward");
    runtime.timeline().end_mark();
    std::vector<float> values(8, 1.0F);
    EXPECT(sum(runtime, kGlobalSet, "w", values).ok());
    runtime.timeline().mark_step();
    EXPECT(runtime.timeline().stop().ok());
    return 0;
  });
  for (const char* name : {"t.rank0.json", "t.rank1.json"}) {
    const std::string trace = content_of(scratch.file(name));
    for (const char* part : {"\"halfway\"", "\"forward\"", "\"WAIT\"", "\"value\":2",
                             "\"bytes\":32", "\"bundle\":1,"}) {
      CAPTURE(part);
      CHECK(trace.find(part) != std::string::npos);
    }
    CHECK(trace.find("before the timeline") == std::string::npos);
  }
}

TEST_CASE("Runtime: raw groups sum without names") {
  run_job(2, [](Runtime& runtime, int rank) {
    auto group = runtime.groups().open({0, 1});
    EXPECT(group.ok());
    std::vector<float> values = {static_cast<float>(rank + 1)};
    Bundle bundle;
    bundle.kind = Collective::kAllreduce;
    BundleTensor& tensor = bundle.tensors.emplace_back();
    tensor.in = values.data();
    tensor.out = values.data();
    tensor.shape = {1};
    EXPECT((*group)->run(bundle).ok());
    EXPECT(values[0] == 3.0F);
    EXPECT(!(*group)->last_path().empty());
    return 0;
  });
}

/// So many names at once that agreeing on them takes more than a ring between two ranks holds.
Status sum_many(Runtime& runtime, int round) {
  constexpr int kOperations = 300;
  std::vector<std::vector<float>> values(kOperations, std::vector<float>{1.0F});
  std::vector<OperationPtr> operations;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string name = fmt::format("{}.{}.{}", std::string(900, 'n'), round, i);
    RONDE_ASSIGN_OR_RETURN(OperationPtr operation,
                           runtime.operations().submit(kGlobalSet, sum_of(name, values[i])));
    operations.push_back(std::move(operation));
  }
  for (const OperationPtr& operation : operations) {
    RONDE_RETURN_IF_ERROR(runtime.operations().wait(operation));
  }
  return {};
}

TEST_CASE("Runtime: a rank with more to say than fits first says it, then moves data") {
  run_job(3, [](Runtime& runtime, int rank) {
    for (int round = 0; round < 20; ++round) EXPECT(sum_many(runtime, round).ok());
    return 0;
  });
}

TEST_CASE("Runtime: a killed rank is named on all survivors") {
  constexpr int kVictim = 1;
  const auto body = [](Runtime& runtime, int rank) {
    std::vector<float> values = {1.0F};
    EXPECT(sum(runtime, kGlobalSet, "before", values).ok());
    if (rank == kVictim) ::kill(::getpid(), SIGKILL);
    const Status status = sum(runtime, kGlobalSet, "after", values);
    EXPECT(status.code() == Code::kRankFailure);
    EXPECT(status.failed_rank().has_value() && status.failed_rank()->rank == kVictim);
    return 0;
  };
  run_job(3, body, kVictim);
}

TEST_CASE("Runtime: a rank that left is named with host and pid, not as pid 0 of nowhere") {
  run_job(2, [](Runtime& runtime, int rank) {
    if (rank == 1) return 0;
    std::vector<float> values = {1.0F};
    const Status status = sum(runtime, kGlobalSet, "after", values);
    EXPECT(status.code() == Code::kRankFailure);
    EXPECT(status.failed_rank()->pid == runtime.topology().peers[1].pid);
    EXPECT(status.failed_rank()->host == runtime.topology().peers[1].host_name);
    EXPECT(status.message().find("has left the job (pid ") != std::string::npos);
    return 0;
  });
}

TEST_CASE("Runtime: a missing rank is named when the start timeout passes") {
  const std::string job = unique_job_id();
  const auto codes = run_ranks(2, [&](int rank) {
    Config config = rank_config(job, rank, 3);
    config.start_timeout = std::chrono::milliseconds(500);
    const auto runtime = Runtime::create(config);
    EXPECT(runtime.status().code() == Code::kTimeout);
    EXPECT(runtime.status().message().find('2') != std::string::npos);
    return 0;
  });
  for (const int code : codes) CHECK(code == 0);
}

TEST_CASE("Runtime: wrong roots, devices and counts are refused before anything is sent") {
  run_job(1, [](Runtime& runtime, int rank) {
    std::vector<float> values = {1.0F};
    Submission root = sum_of("w", values);
    root.request.kind = Collective::kBroadcast;
    root.request.root = 5;
    EXPECT(runtime.operations().submit(kGlobalSet, root).status().code() == Code::kInvalidArgument);
    Submission device = sum_of("w", values);
    device.request.device.kind = DeviceKind::kCuda;
    EXPECT(runtime.operations().submit(kGlobalSet, device).status().code() == Code::kUnsupported);
    Submission count = sum_of("w", values);
    count.outputs.clear();
    EXPECT(runtime.operations().submit(kGlobalSet, count).status().code() ==
           Code::kInvalidArgument);
    EXPECT(runtime.operations().submit(7, sum_of("w", values)).status().code() ==
           Code::kInvalidArgument);
    return 0;
  });
}

}  // namespace ronde
