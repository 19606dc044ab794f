// Top-k of tensors in device memory: what the CPU chooses, sums and leaves over, bit for bit, step
// after step, with lists alone on their way through the host.
#include "ops/device/device_top.h"

#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/backends/cuda/compressed_steps.h"
#include "tests/ops/hierarchical/hierarchical_fixture.h"
#include "tests/support/cuda_fake/cudart_fake.h"

namespace ronde::test {
namespace {

using cuda::CudaDevice;

constexpr const char* kLists = "lists over local";
constexpr const char* kStaged = "compressed over local";

void check_top(const CompressedSteps& steps, const std::string& path = kLists) {
  check_same_bits<DeviceFixture, LocalFixture>(steps, path);
}

/// One rank's part of an allreduce of 5000 elements by top-k, in place.
struct TopTensor {
  Bundle bundle() {
    Bundle made = bundle_of(Collective::kAllreduce, DType::kFloat32);
    made.compression = "topk";
    made.keys = {"tensor"};
    made.tensors = {in_place(values, ready, &complete)};
    return made;
  }

  std::vector<float> values = std::vector<float>(5000, 1.0F);
  DeviceEventPtr ready;
  DeviceEventPtr complete;
};

/// Runs `body` on two ranks with residuals.
template <typename Body>
void on_two_ranks(const Body& body) {
  WithResiduals<DeviceFixture> fixture({.compression = "topk", .ranks = {2}});
  on_ranks(fixture, body);
}

/// Runs it until rank 1 is said to be dead, which is once all is queued that comes before the
/// lists.
Status run_until_death(const Rank& rank, TopTensor& tensor) {
  constexpr int kLaunches = 2 + 10;  // zeros for the residual, and for the flag; the choice
  AbortToken abort;
  const int before = cuda_fake::launches();
  std::thread death([&] {
    while (cuda_fake::launches() < before + kLaunches) std::this_thread::yield();
    abort.abort({Code::kRankFailure, "rank 1 died"});
  });
  const Status status = rank.executor().execute(tensor.bundle(), abort);
  death.join();
  return status;
}

/// Of three ranks number 1 goes another way than the others, and all get what the CPU gives.
void check_mixed(const CompressedSteps& steps, const char* path_of_1, const char* path) {
  const SeenByRank expected = seen_of<LocalFixture>(steps);
  for (const auto& [at, seen] : seen_of<DeviceFixture>(steps)) {
    CHECK(seen.path == (at.second == 1 ? path_of_1 : path));
    CHECK(seen.results == expected.at(at).results);
    CHECK(seen.wire_bytes == expected.at(at).wire_bytes);
    CHECK(seen.residuals == expected.at(at).residuals);
  }
}

}  // namespace

TEST_CASE("device top-k: results, residuals and bytes are the CPU's, and lists alone are staged") {
  for (const char* compression :
       {"topk", "topk:ratio=0.05", "topk:ratio=0.3", "topk:ratio=0.05,ef=off"}) {
    check_top({.compression = compression, .steps = 5});
  }
}

TEST_CASE("device top-k: every floating type is read and written as it is, with its factors") {
  for (const DType dtype : {DType::kFloat16, DType::kBfloat16, DType::kFloat64}) {
    check_top({.compression = "topk:ratio=0.05", .dtype = dtype, .prescale = 0.37});
  }
  check_top({.compression = "topk:ratio=0.05", .op = ReduceOp::kSum, .prescale = -1.7});
}

TEST_CASE("device top-k: ranks that own nothing, and tensors of several cuts") {
  check_top({.compression = "topk:ratio=0.05", .counts = {300, 65}, .ranks = {12}});
  check_top({.compression = "topk", .counts = {600'001, 100}, .steps = 2, .ranks = {3}});
}

TEST_CASE("device top-k: of tensors of zeros but for a few elements those alone travel") {
  check_top({.compression = "topk:ratio=0.05", .every = 50});
}

TEST_CASE("device top-k: hundreds of tensors") {
  std::vector<std::size_t> counts;
  for (std::size_t i = 0; i < 700; ++i) counts.push_back(i * 37 % 900);
  check_top({.compression = "topk:ratio=0.05", .counts = counts, .steps = 2, .ranks = {2}});
}

TEST_CASE("device top-k: a step with NaN leaves the residuals of its tensor as they were") {
  check_top({.compression = "topk:ratio=0.05", .steps = 4, .not_finite_in = 1});
  // Too large for the type of the result, though not for the sum.
  check_top({.compression = "topk:ratio=0.05", .dtype = DType::kFloat16, .prescale = 1100.0});
}

TEST_CASE("device top-k: a rank that has joined gives zeros and keeps nothing") {
  check_top({.compression = "topk:ratio=0.05", .joined = 1});
}

TEST_CASE("device top-k: what travels dense is staged whole") {
  check_top({.compression = "topk", .named = false}, kStaged);
  check_top({.compression = "topk:ratio=1"}, kStaged);
  check_top({.compression = "topk", .counts = {0, 0}}, kStaged);
}

TEST_CASE("device top-k: a warm-up begins staged and goes on with longer lists") {
  check_top({.compression = "topk:ratio=0.01,warmup=32", .steps = 2}, kStaged);
  check_top({.compression = "topk:ratio=0.01,warmup=32", .steps = 18});
}

TEST_CASE("device top-k: ranks with lists and ranks with all values work together") {
  // In the first step of a warm-up one has joined, and so has nothing to list.
  check_mixed({.compression = "topk:warmup=100", .steps = 1, .joined = 1, .ranks = {3}}, kLists,
              kStaged);
  // One has no room for what it would leave over, and sends all of it.
  check_mixed({.compression = "topk:ratio=0.05", .without_room = 1, .ranks = {3}}, kStaged, kLists);
}

TEST_CASE("device top-k: tensors that take turns in host and device memory keep residuals") {
  check_top({.compression = "topk:ratio=0.05", .steps = 6, .on_host = {1, 3, 4}});
  check_top({.compression = "topk:ratio=0.05", .steps = 5, .on_host = {0, 4}}, kStaged);
}

TEST_CASE("device top-k: what waits goes on with another codec, wherever that works") {
  check_top({.compression = "topk:ratio=0.05",
             .steps = 8,
             .changes = {{1, "int8"},
                         {2, "topk:ratio=0.1"},
                         {3, "topk:ratio=0.1,momentum=0.9"},
                         {4, "topk:residual=bf16"},
                         {6, "int4"},
                         {7, "topk"}}});
}

TEST_CASE("device top-k: residuals that were saved and loaded go on as they were") {
  const auto reload = [](ResidualStore& store) {
    auto saved = store.save().value();
    REQUIRE(store.load(std::move(saved)).ok());
  };
  check_top({.compression = "topk:ratio=0.05", .steps = 4, .between = reload});
}

TEST_CASE("device top-k: tensors beyond the limit of residuals travel dense beside the others") {
  check_top({.compression = "topk:ratio=0.05", .residual_limit = 21'000});
}

TEST_CASE("device top-k: a residual that stays in bf16, for want of room, is added on the host") {
  check_top({.compression = "topk:ratio=0.05,residual=bf16",
             .steps = 4,
             .changes = {{2, "topk:ratio=0.05"}},
             .residual_limit = 12'000},
            kStaged);
}

TEST_CASE("device top-k: what waits is measured where that is asked for") {
  const CompressedSteps steps{.compression = "topk:ratio=0.05", .loss_steps = 2};
  check_top(steps);
  CHECK(seen_of<DeviceFixture>(steps).at({2, 0}).losses.size() == 8);  // one is empty
}

TEST_CASE("device top-k: between hosts of several ranks it is the host's plane that does it") {
  check_same_bits<OnDevices<LevelPartsFixture>, LevelPartsFixture>(
      {.compression = "topk:ratio=0.05", .ranks = {3, 4}}, "local, local inside hosts");
}

TEST_CASE("device top-k: it comes after the caller's stream, and results after it") {
  on_two_ranks([](const Rank& rank) {
    CudaDevice device(0);
    const DeviceStream stream = device.open_stream().value();
    TopTensor tensor;
    const std::vector<float> made(5000, 2.0F);
    auto hold = std::make_unique<cuda_fake::Hold>(static_cast<cudaStream_t>(stream));
    REQUIRE(device.copy(tensor.values.data(), made.data(), 20'000, stream).ok());
    tensor.ready = device.record(stream).value();
    std::thread release([&] { hold.reset(); });
    REQUIRE(rank.run(tensor.bundle()).ok());
    release.join();
    while (!tensor.complete->reached().value()) std::this_thread::yield();
    // Of equal ones each rank sends the first 50.
    std::vector<float> wanted(5000);
    std::fill_n(wanted.begin(), 50, 4.0F);
    CHECK(tensor.values == wanted);
  });
}

TEST_CASE("device top-k: an abort ends the wait for lists that the device does not bring") {
  TopTensor tensor;  // what is queued may still read it when the call has returned
  on_two_ranks([&](const Rank& rank) {
    if (rank.rank() == 1) return;
    CudaDevice device(0);
    const DeviceStream stream = device.open_stream().value();
    {
      const cuda_fake::Hold hold(static_cast<cudaStream_t>(stream));
      tensor.ready = device.record(stream).value();
      CHECK(run_until_death(rank, tensor).code() == Code::kRankFailure);
      CHECK(tensor.values == std::vector<float>(5000, 1.0F));
    }
    cuda_fake::finish(static_cast<cudaStream_t>(stream));
  });
}

TEST_CASE("device top-k: a rank that dies before its lists come fails the others, by its status") {
  TopTensor tensor;
  on_two_ranks([&](const Rank& rank) {
    if (rank.rank() == 1) return;
    const Status status = run_until_death(rank, tensor);
    CHECK(status.code() == Code::kRankFailure);
    CHECK(status.message() == "rank 1 died");
  });
}

TEST_CASE("device top-k: without room on the device, or for pinned memory, it goes on") {
  for (const char* missing : {"cudaMalloc", "cudaMallocHost"}) {
    for (int calls = 0; calls < 4; ++calls) {
      cuda_fake::fail_next(missing, cudaErrorMemoryAllocation, calls);
      check_top({.compression = "topk:ratio=0.05", .steps = 2, .ranks = {2}});
    }
  }
}

TEST_CASE("device top-k: a rank without any memory has a typed error") {
  TopTensor tensor;
  on_two_ranks([&](const Rank& rank) {
    if (rank.rank() != 0) return;
    cuda_fake::fail_next("cudaMalloc", cudaErrorMemoryAllocation);
    cuda_fake::fail_next("cudaMallocHost", cudaErrorMemoryAllocation);
    const Status status = rank.run(tensor.bundle());
    CHECK(status.code() == Code::kAborted);
    CHECK(status.message() == "out of memory in allreduce of 20000 bytes on cuda:0");
  });
}

TEST_CASE("device top-k: a launch that fails is an error that says so") {
  TopTensor tensor;
  on_two_ranks([&](const Rank& rank) {
    if (rank.rank() != 0) return;
    cuda_fake::fail_next("launch", cudaErrorLaunchFailure, 2);  // after two times zeros
    const Status status = rank.run(tensor.bundle());
    CHECK(status.code() == Code::kUnavailable);
    CHECK(status.message().find("a kernel of compression on cuda:0") == 0);
  });
}

TEST_CASE("device top-k: its memory is given back") {
  const int before = cuda_fake::live_objects();
  (void)seen_of<DeviceFixture>({.compression = "topk", .ranks = {2}});
  CHECK(cuda_fake::live_objects() == before);
}

}  // namespace ronde::test
