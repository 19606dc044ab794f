// Data that changes in shared memory between two ranks: found by whoever reads it.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "backends/shm/memory/layout.h"
#include "core/base/clock.h"
#include "tests/backends/shm/shm_fixture.h"
#include "tests/backends/shm/soup.h"
#include "tests/support/run_ranks.h"

namespace ronde::test {
namespace {

constexpr int kRanks = 2;
constexpr std::size_t kNeedleBytes = 16;
constexpr ShmOptions kChecked{.checksums = true};

/// Where this process has mapped the memory of a group, as its ranks see it.
std::byte* group_memory() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    if (line.find("memfd:ronde") == std::string::npos) continue;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2) continue;
    if (end - begin == shm::Layout(kRanks).total_bytes())
      return reinterpret_cast<std::byte*>(begin);
  }
  return nullptr;
}

/// Flips a bit of the bytes that lie `skipped` behind the first `needle` in the memory, once they
/// are there.
bool flip_behind(std::span<const std::byte> needle, std::size_t skipped) {
  std::byte* const begin = group_memory();
  if (begin == nullptr) return false;
  const std::span<std::byte> all(begin, shm::Layout(kRanks).total_bytes());
  const TimePoint limit = now() + std::chrono::seconds(20);
  while (now() < limit) {
    const auto found = std::search(all.begin(), all.end(), needle.begin(), needle.end());
    if (found == all.end()) continue;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the writer goes on
    found[static_cast<std::ptrdiff_t>(skipped)] ^= std::byte{1};
    return true;
  }
  return false;
}

/// One collective of two ranks, of so many bytes of each.
struct Moved {
  Collective kind{};
  std::size_t bytes = 0;
};

std::vector<std::byte> pattern(int rank, std::size_t bytes) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::vector<std::byte> data(bytes);
  for (std::byte& each : data) each = static_cast<std::byte>(random());
  return data;
}

/// The work of one rank, and its memory.
struct OwnWork {
  OwnWork(const Moved& moved, int rank)
      : in(pattern(rank, moved.bytes)),
        out(2 * moved.bytes),
        halves{moved.bytes / 2, moved.bytes - moved.bytes / 2},
        wholes{moved.bytes, moved.bytes} {
    const CollectiveTraits traits = traits_of(moved.kind);
    gathers = moved.kind == Collective::kAllgather || moved.kind == Collective::kGather;
    deals = moved.kind == Collective::kReduceScatter || moved.kind == Collective::kScatter;
    segment = {in.data(), out.data(), moved.bytes * (gathers ? 2 : 1)};
    work = allreduce_of({&segment, 1}, DType::kUint8);
    work.kind = moved.kind;
    work.bytes = segment.bytes;
    if (gathers) work.chunk_bytes = wholes;
    if (deals) work.chunk_bytes = halves;
    if (moved.kind == Collective::kAlltoall) work.send_bytes = work.recv_bytes = halves;
    if (traits.output.root_only) work.root = 1;
    const bool two_shot = moved.bytes > 100'000 && traits.reduces;
    sends_second_half = deals || two_shot || moved.kind == Collective::kAlltoall;
  }

  std::vector<std::byte> in;
  std::vector<std::byte> out;
  std::vector<std::size_t> halves;
  std::vector<std::size_t> wholes;
  Segment segment;
  Work work;
  bool gathers = false;
  bool deals = false;
  bool sends_second_half = false;  ///< From rank 0 to rank 1.
};

/// Runs it: bytes of rank 0 change before rank 1 reads them. Returns what each rank is told.
std::array<Status, kRanks> run_spoilt(const Moved& moved, const ShmOptions& options,
                                      std::size_t at) {
  const LocalJob job(kRanks);
  std::array<Status, kRanks> told;
  run_ranks(kRanks, [&](int rank) {
    const auto group = open_shm(job, rank, options);
    REQUIRE(group != nullptr);
    const OwnWork own(moved, rank);
    if (rank == 1) {
      const auto theirs = pattern(0, moved.bytes);
      const std::size_t from = own.sends_second_half ? moved.bytes / 2 + 512 : 0;
      REQUIRE(flip_behind(std::span(theirs).subspan(from, kNeedleBytes), at));
    }
    told[static_cast<std::size_t>(rank)] = group->run(own.work, kNoStream, job.abort());
  });
  return told;
}

constexpr Collective kKinds[] = {Collective::kAllreduce, Collective::kReduce,
                                 Collective::kBroadcast, Collective::kAllgather,
                                 Collective::kGather,    Collective::kReduceScatter,
                                 Collective::kScatter,   Collective::kAlltoall};

TEST_CASE("data that changes in shared memory is found and named, in every collective") {
  for (const Collective kind : kKinds) {
    for (const std::size_t bytes : {std::size_t{4'096}, std::size_t{120'000}}) {
      for (const std::size_t at : {std::size_t{0}, bytes / 500, bytes / 5}) {
        CAPTURE(to_string(kind));
        CAPTURE(bytes);
        CAPTURE(at);
        const auto told = run_spoilt({kind, bytes}, kChecked, at);
        CHECK(told[1].code() == Code::kCorrupted);
        CHECK_MESSAGE(told[1].message().starts_with(
                          "data changed in shared memory between rank 0 and rank 1: the "),
                      told[1].to_string());
      }
    }
  }
}

TEST_CASE("without checksums changed data is not found") {
  CHECK(run_spoilt({Collective::kBroadcast, 4'096}, {}, 0)[1].ok());
}

TEST_CASE("all ranks are told of changed data, and which tensor it was") {
  const auto told = run_spoilt({Collective::kAllreduce, 120'000}, kChecked, 9);
  CHECK(told[0].code() == Code::kCorrupted);
  CHECK(told[0].message() == told[1].message());
  CHECK(told[0].tensor() == std::size_t{0});
  CHECK(told[1].tensor() == std::size_t{0});
}

/// Kernels that call `before` once before they reduce.
class LateKernels final : public ScalarKernels {
 public:
  explicit LateKernels(std::function<void()> before) : before_(std::move(before)) {}
  void reduce(const Reduction& what, std::span<const void* const> inputs, void* out,
              std::size_t count) const noexcept override {
    if (const auto before = std::exchange(before_, nullptr)) before();
    ScalarKernels::reduce(what, inputs, out, count);
  }

 private:
  mutable std::function<void()> before_;
};

TEST_CASE("a result that changes before another rank has copied it is found") {
  constexpr std::size_t kBytes = 100'000;
  std::vector<std::byte> sums = pattern(0, kBytes);
  const auto other = pattern(1, kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) {
    sums[i] =
        static_cast<std::byte>(std::to_integer<int>(sums[i]) + std::to_integer<int>(other[i]));
  }
  const LocalJob job(kRanks);
  run_ranks(kRanks, [&](int rank) {
    const auto spoil = [&] { CHECK(flip_behind(std::span(sums).subspan(8'000, kNeedleBytes), 3)); };
    const auto backend = create_shm_backend(
        std::make_shared<LateKernels>(rank == 1 ? std::function<void()>(spoil) : nullptr),
        kChecked);
    const auto exchange = job.exchange(rank);
    const auto group = backend->open(job.group(rank), *exchange).value();
    const auto in = pattern(rank, kBytes);
    std::vector<std::byte> out(kBytes);
    const Segment segment{in.data(), out.data(), kBytes};
    const Status told =
        group->run(allreduce_of({&segment, 1}, DType::kUint8), kNoStream, job.abort());
    if (rank == 1) CHECK_MESSAGE(told.code() == Code::kCorrupted, told.to_string());
  });
}

TEST_CASE("a message that changes on its way through shared memory is found") {
  for (const std::size_t at : {0UL, 40UL, 4'999UL}) {
    const LocalJob job(kRanks);
    run_ranks(kRanks, [&](int rank) {
      const auto group = open_shm(job, rank, kChecked);
      Transport& transport = *group->transport();
      const auto data = pattern(0, 5'000);
      if (rank == 0) {
        const auto id = transport.send(1, data).value();
        CHECK(transport.wait(id, job.abort()).ok());
        return;
      }
      REQUIRE(flip_behind(std::span(data).first(kNeedleBytes), at));
      std::vector<std::byte> in(data.size());
      const auto id = transport.recv(0, in).value();
      const Status told = transport.wait(id, job.abort());
      CHECK(told.code() == Code::kCorrupted);
      CHECK_MESSAGE(told.message().find("between rank 0 and rank 1") != std::string::npos,
                    told.to_string());
    });
  }
}

TEST_CASE("ten thousand healthy operations raise no alarm") {
  constexpr int kThree = 3;
  const LocalJob job(kThree);
  run_ranks(kThree, [&](int rank) {
    const auto group = open_shm(job, rank, kChecked);
    REQUIRE(group != nullptr);
    std::mt19937 random(77);
    for (int i = 0; i < 10'000; ++i) {
      serve(*group, cook(random, kThree, i % 100 == 0 ? 200'000 : 500), kThree, rank);
    }
  });
}

}  // namespace
}  // namespace ronde::test
