// Whole jobs of real processes whose tensors are in the fake's device memory: from the submission
// on a caller's stream to the caller's stream that waits for the result, staged over shared memory.
#include "bindings/runtime/runtime.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "backends/cuda/factory.h"
#include "bindings/runtime/groups/devices.h"
#include "bindings/runtime/operations.h"
#include "ops/compression/residuals.h"
#include "tests/backends/net/processes.h"
#include "tests/support/cuda_fake/cudart_fake.h"

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

using test::cuda_fake::finish;

/// The fake's devices.
DeviceLibraries libraries() {
  return {.accelerator = []() -> Result<std::shared_ptr<Accelerator>> {
    return std::shared_ptr<Accelerator>(create_cuda_accelerator("libc.so.6"));
  }};
}

/// Runs `body` as both ranks of a job; all must return 0, but for `victim`, which must be killed.
void run_pair(const std::function<int(Runtime&, int)>& body, int victim = -1) {
  const std::string job = net::unique_job_id();
  const auto codes = net::run_ranks(2, [&](int rank) {
    Config config = net::rank_config(job, rank, 2);
    config.backend = "shm";  // tensors in device memory are staged
    auto runtime = Runtime::create(std::move(config), libraries());
    EXPECT(runtime.ok());
    return body(**runtime, rank);
  });
  for (int rank = 0; rank < 2; ++rank) {
    CHECK(codes[static_cast<std::size_t>(rank)] == (rank == victim ? -SIGKILL : 0));
  }
}

/// Memory that lives until the process ends: queued device work uses it after a wait returns.
std::vector<float>& lasting(std::size_t count) {
  static std::vector<float> data;
  data.assign(count, 1.0F);
  return data;
}

Submission submission_of(Collective kind, const std::string& name, std::vector<float>& data,
                         Device device = {DeviceKind::kCuda, 0}) {
  Submission submission;
  submission.request.kind = kind;
  submission.request.name = name;
  submission.request.device = device;
  submission.request.tensors = {{DType::kFloat32, {static_cast<std::int64_t>(data.size())}}};
  submission.inputs = {data.data()};
  submission.outputs = {kind == Collective::kAllgather ? nullptr : data.data()};
  return submission;
}

}  // namespace

TEST_CASE("device tensors: sums come after the caller's stream and before what it is given next") {
  run_pair([](Runtime& runtime, int rank) {
    std::vector<std::vector<float>> data(30, std::vector<float>(1000));
    std::vector<std::vector<float>> seen = data;
    std::vector<OperationPtr> operations;
    const std::vector<float> made(1000, static_cast<float>(rank + 1));
    for (std::size_t i = 0; i < data.size(); ++i) {
      // On the default stream, as a framework's kernel would write a gradient.
      EXPECT(cudaMemcpyAsync(data[i].data(), made.data(), 4000, cudaMemcpyDefault, nullptr) ==
             cudaSuccess);
      auto operation = runtime.operations().submit(
          kGlobalSet, submission_of(Collective::kAllreduce, "w" + std::to_string(i), data[i]));
      EXPECT(operation.ok());
      operations.push_back(*operation);
    }
    for (std::size_t i = 0; i < data.size(); ++i) {
      EXPECT(runtime.operations().wait(operations[i]).ok());
      EXPECT(operations[i]->completion() != nullptr);
      EXPECT(runtime.operations().order_after(operations[i], nullptr).ok());
      EXPECT(cudaMemcpyAsync(seen[i].data(), data[i].data(), 4000, cudaMemcpyDefault, nullptr) ==
             cudaSuccess);
    }
    finish(nullptr);
    for (const auto& values : seen) EXPECT(values == std::vector<float>(1000, 3.0F));
    return 0;
  });
}

TEST_CASE("device tensors: an output that the operation allocates is on the device") {
  run_pair([](Runtime& runtime, int rank) {
    std::vector<float> data(static_cast<std::size_t>(rank) + 1, static_cast<float>(rank));
    const auto operation =
        runtime.operations().run(kGlobalSet, submission_of(Collective::kAllgather, "rows", data));
    EXPECT(operation.ok());
    EXPECT(runtime.operations().order_after(*operation, nullptr).ok());
    finish(nullptr);
    const OwnedOutput& output = (*operation)->owned_outputs().at(0);
    EXPECT(output.shape == Shape{3});
    const auto* values = reinterpret_cast<const float*>(output.data.get());
    EXPECT(values[0] == 0.0F && values[1] == 1.0F && values[2] == 1.0F);
    return 0;
  });
}

TEST_CASE(
    "device tensors: a rank whose tensor is on the host is a mismatch for all, and names it") {
  run_pair([](Runtime& runtime, int rank) {
    std::vector<float>& data = lasting(4);
    const Device device = rank == 0 ? Device{} : Device{DeviceKind::kCuda, 0};
    const auto mixed = runtime.operations().run(
        kGlobalSet, submission_of(Collective::kAllreduce, "mixed", data, device));
    EXPECT(mixed.status().code() == Code::kMismatch);
    EXPECT(mixed.status().message().find("device cpu") != std::string::npos);
    EXPECT(mixed.status().message().find("device cuda") != std::string::npos);
    EXPECT(runtime.operations()
               .run(kGlobalSet, submission_of(Collective::kAllreduce, "next", data))
               .ok());
    return 0;
  });
}

TEST_CASE("device tensors: a second device in one set is an error for all, and the job goes on") {
  run_pair([](Runtime& runtime, int rank) {
    std::vector<float>& data = lasting(4);
    EXPECT(runtime.operations()
               .run(kGlobalSet, submission_of(Collective::kAllreduce, "first", data))
               .ok());
    const Device other{DeviceKind::kCuda, rank};
    const auto mixed = runtime.operations().run(
        kGlobalSet, submission_of(Collective::kAllreduce, "other", data, other));
    EXPECT(mixed.status().code() == Code::kMismatch);
    EXPECT(mixed.status().message().find("several devices") != std::string::npos);
    EXPECT(runtime.operations()
               .run(kGlobalSet, submission_of(Collective::kAllreduce, "first", data))
               .ok());
    return 0;
  });
}

TEST_CASE("device tensors: compressed sums keep residuals that a job saves, loads and measures") {
  run_pair([](Runtime& runtime, int rank) {
    std::vector<float>& data = lasting(3000);
    const auto step = [&]() -> std::vector<float> {
      for (std::size_t i = 0; i < data.size(); ++i) {
        data[i] = static_cast<float>((i * 7919 + static_cast<std::size_t>(rank)) % 1000);
      }
      Submission submission = submission_of(Collective::kAllreduce, "w", data);
      submission.request.compression = "int8";
      const auto done = runtime.operations().run(kGlobalSet, std::move(submission));
      if (!done.ok() || !runtime.operations().order_after(*done, nullptr).ok()) return {};
      finish(nullptr);
      return data;
    };
    EXPECT(!step().empty());
    EXPECT(runtime.residuals().bytes() == 12'000);
    const auto saved = runtime.residuals().save().value();
    EXPECT(saved.size() == 1 && saved[0].name == "w" && saved[0].steps == 1);
    EXPECT(saved[0].values != std::vector<float>(3000));
    const std::vector<float> second = step();
    EXPECT(runtime.residuals().load({}).ok());
    EXPECT(step() != second);
    EXPECT(runtime.residuals().load(saved).ok());
    EXPECT(step() == second);
    return 0;
  });
}

TEST_CASE("device tensors: where there is no device the submission says why") {
  run_pair([](Runtime& runtime, int rank) {
    test::cuda_fake::set_device_count(0);
    std::vector<float>& data = lasting(4);
    const auto none = runtime.operations().run(
        kGlobalSet, submission_of(Collective::kAllreduce, "gradient", data));
    EXPECT(none.status().code() == Code::kUnsupported);
    EXPECT(none.status().message().find("the tensor is on cuda:0, which cannot be used here: "
                                        "no CUDA device is visible") != std::string::npos);
    EXPECT(none.status().message().find("gradient") != std::string::npos);
    return 0;
  });
}

TEST_CASE("device tensors: a rank that is killed fails the others by name") {
  run_pair(
      [](Runtime& runtime, int rank) {
        std::vector<float>& data = lasting(1 << 20);
        EXPECT(runtime.operations()
                   .run(kGlobalSet, submission_of(Collective::kAllreduce, "one", data))
                   .ok());
        if (rank == 1) ::kill(::getpid(), SIGKILL);
        const auto failed = runtime.operations().run(
            kGlobalSet, submission_of(Collective::kAllreduce, "two", data));
        EXPECT(failed.status().code() == Code::kRankFailure);
        EXPECT(failed.status().failed_rank()->rank == 1);
        return 0;
      },
      1);
}

TEST_CASE("device tensors: top-k of tensors that are not ready yet blocks no submission") {
  run_pair([](Runtime& runtime, int rank) {
    std::vector<std::vector<float>> data(5, std::vector<float>(6400));
    std::vector<OperationPtr> operations;
    const std::vector<float> made(6400, static_cast<float>(rank + 1));
    {
      const test::cuda_fake::Hold hold(nullptr);
      for (std::size_t i = 0; i < data.size(); ++i) {
        EXPECT(cudaMemcpyAsync(data[i].data(), made.data(), 25'600, cudaMemcpyDefault, nullptr) ==
               cudaSuccess);
        Submission submission =
            submission_of(Collective::kAllreduce, "w" + std::to_string(i), data[i]);
        submission.request.compression = i == 0 ? "topk" : "topk:ratio=0.25";
        auto operation = runtime.operations().submit(kGlobalSet, std::move(submission));
        EXPECT(operation.ok());
        operations.push_back(*operation);
      }
    }
    for (std::size_t i = 0; i < data.size(); ++i) {
      EXPECT(runtime.operations().wait(operations[i]).ok());
      EXPECT(runtime.operations().order_after(operations[i], nullptr).ok());
    }
    finish(nullptr);
    for (std::size_t i = 0; i < data.size(); ++i) {
      std::vector<float> wanted(6400);  // of equal ones the first travel
      std::fill_n(wanted.begin(), i == 0 ? 64 : 1600, 3.0F);
      EXPECT(data[i] == wanted);
    }
    return 0;
  });
}

TEST_CASE("device tensors: a rank that is killed fails the others' top-k by name") {
  run_pair(
      [](Runtime& runtime, int rank) {
        std::vector<float>& data = lasting(1 << 20);
        const auto reduce = [&] {
          Submission submission = submission_of(Collective::kAllreduce, "w", data);
          submission.request.compression = "topk";
          return runtime.operations().run(kGlobalSet, std::move(submission));
        };
        EXPECT(reduce().ok());
        if (rank == 1) ::kill(::getpid(), SIGKILL);
        const auto failed = reduce();
        EXPECT(failed.status().code() == Code::kRankFailure);
        EXPECT(failed.status().failed_rank()->rank == 1);
        return 0;
      },
      1);
}

TEST_CASE(
    "device tensors: a lost device ends all ranks with the call's name, and they can begin anew") {
  const std::string again = net::unique_job_id();
  run_pair([&](Runtime& runtime, int rank) {
    std::vector<float>& data = lasting(4);
    EXPECT(runtime.operations()
               .run(kGlobalSet, submission_of(Collective::kAllreduce, "one", data))
               .ok());
    if (rank == 1) test::cuda_fake::fail_next("cudaMemcpyAsync", cudaErrorIllegalAddress);
    const auto lost =
        runtime.operations().run(kGlobalSet, submission_of(Collective::kAllreduce, "two", data));
    EXPECT(!lost.ok());
    EXPECT(lost.status().message().find("cudaMemcpyAsync on cuda:0") != std::string::npos);
    EXPECT(!runtime.operations()
                .run(kGlobalSet, submission_of(Collective::kAllreduce, "three", data))
                .ok());
    auto next = Runtime::create(net::rank_config(again, rank, 2), libraries());
    EXPECT(next.ok());
    EXPECT((*next)
               ->operations()
               .run(kGlobalSet, submission_of(Collective::kAllreduce, "one", data))
               .ok());
    return 0;
  });
}

}  // namespace ronde
