// The Gloo backend behind its port: viability, and Gloo's own collectives on a few known values.
#include <doctest/doctest.h>

#include <array>
#include <functional>
#include <latch>
#include <numeric>
#include <thread>

#include "backends/gloo/factory.h"
#include "ops/communicator/algorithm.h"
#include "tests/support/local_exchange.h"
#include "tests/support/plain_kernels.h"
#include "tests/support/run_ranks.h"

namespace ronde {
namespace {

std::unique_ptr<Communicator> open_group(const test::LocalJob& job, int rank) {
  const ModuleOptions options{
      .network_interface = "", .kernels = test::plain_kernels(), .unprotected = false};
  auto group = create_gloo_backend(options)->open(job.group(rank), *job.exchange(rank));
  REQUIRE_MESSAGE(group.ok(), group.status().to_string());
  return std::move(group).value();
}

std::vector<float> ramp(std::size_t count, int rank) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), static_cast<float>(1 + rank));
  return values;
}

Segment segment(const std::vector<float>& in, std::vector<float>& out) {
  return {reinterpret_cast<const std::byte*>(in.data()), reinterpret_cast<std::byte*>(out.data()),
          in.size() * sizeof(float)};
}

/// An exchange that calls a function before its third value, or once it has the second ones.
class HookedExchange final : public Exchange {
 public:
  HookedExchange(Exchange& inner, std::function<void()> second, std::function<void()> third)
      : inner_(inner), after_second_(std::move(second)), before_third_(std::move(third)) {}
  Result<std::vector<std::string>> allgather(std::string_view mine) override {
    ++calls_;
    if (calls_ == 3) before_third_();
    auto all = inner_.allgather(mine);
    if (calls_ == 2) after_second_();
    return all;
  }

 private:
  Exchange& inner_;
  const std::function<void()> after_second_;
  const std::function<void()> before_third_;
  int calls_ = 0;
};

TEST_CASE("gloo: an interface that does not exist makes it unusable, with a reason") {
  const test::LocalJob job(2, {0, 1});
  const auto backend = create_gloo_backend({.network_interface = "no-such-interface0"});
  CHECK(backend->viable(job.group(0)).code() == Code::kUnavailable);
  const test::LocalJob one_host(2);
  CHECK(backend->viable(one_host.group(0)).ok());
}

TEST_CASE("gloo: a rank that cannot open its device fails the group on all ranks, by its name") {
  const test::LocalJob job(2, {0, 1});
  test::run_ranks(2, [&](int rank) {
    const char* interface = rank == 1 ? "no-such-interface0" : "127.0.0.1";
    const auto backend = create_gloo_backend({.network_interface = interface});
    const Status status = backend->open(job.group(rank), *job.exchange(rank)).status();
    CHECK(status.code() == Code::kUnavailable);
    CHECK(status.message().find("rank 1") != std::string::npos);
  });
}

// Of two ranks one connects and one waits for it, by their ports: several rounds have both.
TEST_CASE("gloo: a rank that another one does not connect to gives up at the deadline") {
  for (int round = 0; round < 8; ++round) {
    const test::LocalJob job(2);
    const int held = round % 2;
    std::latch gave_up(1);
    test::run_ranks(2, [&](int rank) {
      const auto backend = create_gloo_backend({.network_interface = "127.0.0.1"});
      GroupSpec spec = job.group(rank);
      spec.deadline = now() + std::chrono::milliseconds(100);
      const auto exchange = job.exchange(rank);
      // The second values are addresses; then ranks connect, and say third how that went.
      HookedExchange steps(
          *exchange,
          [&] {
            if (rank == held) gave_up.wait();
          },
          [&] {
            if (rank != held) gave_up.count_down();
          });
      const TimePoint begin = now();
      (void)backend->open(spec, steps);
      if (rank == held) return;
      CHECK(now() - begin < std::chrono::seconds(15));  // Gloo's own limit was 30
    });
  }
}

TEST_CASE("gloo: hosts connect over the requested address") {
  const test::LocalJob job(2, {0, 1});
  test::run_ranks(2, [&](int rank) {
    const auto backend = create_gloo_backend({.network_interface = "127.0.0.1"});
    CHECK(backend->open(job.group(rank), *job.exchange(rank)).ok());
  });
}

TEST_CASE("gloo: allreduce scales and sums over one and several segments") {
  for (const int size : {1, 2, 3, 4}) {
    const test::LocalJob job(size);
    test::run_ranks(size, [&](int rank) {
      AlgorithmCommunicator group(
          open_group(job, rank),
          {.kernels = test::plain_kernels(), .algorithm = "native", .rank = rank, .size = size});
      for (const std::size_t count : {1U, 7U, 40'000U}) {
        const auto in = ramp(count, rank);
        std::vector<float> out(count), second(count);
        const std::array<Segment, 2> segments = {segment(in, out), segment(in, second)};
        Work work;
        work.kind = Collective::kAllreduce;
        work.reduction.scaling = {.pre = 2.0, .post = 0.5};
        work.segments = segments;
        REQUIRE(group.run(work, kNoStream, job.abort()).ok());
        const auto sum_at = [&](std::size_t i) {
          const int ranks_sum = size * (size - 1) / 2;
          return static_cast<float>(size) * static_cast<float>(i + 1) +
                 static_cast<float>(ranks_sum);
        };
        CHECK(out[count - 1] == sum_at(count - 1));
        CHECK(second == out);
        work.reduction.scaling = {};
        work.segments = std::span(segments).first(1);
        out.assign(count, 0.0F);
        REQUIRE(group.run(work, kNoStream, job.abort()).ok());
        CHECK(out == second);
      }
    });
  }
}

TEST_CASE("gloo: an abort ends a collective that one rank never joins") {
  const test::LocalJob job(3);
  std::latch opened(3);
  test::run_ranks(3, [&](int rank) {
    const auto group = open_group(job, rank);
    opened.arrive_and_wait();
    if (rank == 2) {
      job.abort().abort({Code::kRankFailure, "rank 2 gave up"});
      return;
    }
    const auto in = ramp(1 << 16, rank);
    std::vector<float> out(in.size());
    const std::array<Segment, 1> segments = {segment(in, out)};
    Work work;
    work.kind = Collective::kAllreduce;
    work.segments = segments;
    CHECK(group->run(work, kNoStream, job.abort()).message() == "rank 2 gave up");
  });
}

TEST_CASE("gloo: an abort ends a collective of Gloo's in the middle of a message") {
  const test::LocalJob job(2);
  std::vector<float> sent(std::size_t{32} << 20, 1.0F);
  std::vector<float> received(sent.size());
  test::run_ranks(2, [&](int rank) {
    const auto group = open_group(job, rank);
    std::vector<float>& mine = rank == 0 ? sent : received;
    std::jthread aborting;
    if (rank == 1) {
      aborting = std::jthread([&] {
        while (__atomic_load_n(reinterpret_cast<const int*>(received.data()), __ATOMIC_RELAXED) ==
               0) {
          std::this_thread::yield();
        }
        job.abort().abort({Code::kRankFailure, "rank 2 gave up"});
      });
    }
    const std::array<Segment, 1> segments = {segment(mine, mine)};
    Work work;
    work.kind = Collective::kBroadcast;
    work.segments = segments;
    const Status status = group->run(work, kNoStream, job.abort());
    CHECK((status.message() == "rank 2 gave up" || (status.ok() && mine.back() == 1.0F)));
  });
}

}  // namespace
}  // namespace ronde
