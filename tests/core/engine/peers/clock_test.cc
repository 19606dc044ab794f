// Engines whose hosts' clocks are minutes apart and drift compare them.
#include <doctest/doctest.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "core/engine/engine.h"
#include "tests/support/local/factory.h"
#include "tests/support/local/hub.h"
#include "tests/support/run_ranks.h"
#include "timeline/reading/job_clock.h"
#include "timeline/recording/trace_head.h"

namespace ronde {
namespace {

constexpr int kRanks = 3;

/// A steady clock of its own for each rank of one host, as several hosts have.
struct HostClock {
  std::string boot_id = {};
  std::int64_t offset_ns = 0;  ///< Ahead of the steady clock by this.
  double drift_ppm = 0;        ///< Additional millionths since the machine started.

  /// This clock's time when the steady clock shows `ns`.
  [[nodiscard]] std::int64_t of(std::int64_t ns) const noexcept {
    return ns + offset_ns + static_cast<std::int64_t>(static_cast<double>(ns) * drift_ppm / 1e6);
  }
};

/// Rank 0's clock is right, rank 1's ahead and fast, rank 2's behind and slow.
HostClock clock_of(int rank) {
  if (rank == 0) return {.boot_id = "host0"};
  if (rank == 1) return {.boot_id = "host1", .offset_ns = 300'000'000'000, .drift_ppm = 100};
  return {.boot_id = "host2", .offset_ns = -200'000'000'000, .drift_ppm = -100};
}

/// The clock samples in the trace of a rank that starts at `start_ns`.
TraceClock compare(const std::shared_ptr<LocalHub>& hub, int rank, std::int64_t start_ns) {
  const HostClock host = clock_of(rank);
  ClockSync sync(host.boot_id, [&] { return host.of(steady_ns()); });
  const auto channel = create_local_channel(hub, rank);
  TraceClock trace;
  trace.info.boot_id = host.boot_id;
  trace.info.steady_start_ns = host.of(start_ns);
  {
    EngineOptions options;
    options.channel = channel.get();
    options.abort = std::make_shared<AbortToken>();
    options.on_clock = [&](auto message) { return sync.on_message(message); };
    Engine engine(std::move(options));
    for (int i = 0; i < 100; ++i) {
      if (rank != 0) engine.send_clock(0, [&] { return sync.request(); });
      std::this_thread::sleep_for(std::chrono::milliseconds(12));
    }
    for (auto& sample : sync.take()) trace.samples.push_back(std::move(sample));
    CHECK(engine.exchange(1, 0, std::vector<int>{0, 1, 2}, "done", {}).ok());
    engine.leave(now() + std::chrono::seconds(20));
  }
  channel->close();
  return trace;
}

}  // namespace

TEST_CASE("Engine: clocks that are minutes apart and drift are put on one by what ranks exchange") {
  const auto hub = create_local_hub(kRanks, {0, 1, 2});
  const std::int64_t start_ns = steady_ns();
  std::vector<TraceClock> traces(kRanks);
  test::run_ranks(kRanks, [&](int rank) {
    traces[static_cast<std::size_t>(rank)] = compare(hub, rank, start_ns);
  });
  const JobClock clock(traces);
  MESSAGE("the clocks agree to " << clock.error_ns() << " ns");
  CHECK(clock.error_ns() > 0);
  for (std::size_t rank = 1; rank < kRanks; ++rank) {
    CHECK(traces[rank].samples.size() >= 50);
    const HostClock host = clock_of(static_cast<int>(rank));
    for (const ClockSample& sample : traces[rank].samples) {
      CHECK(std::abs(sample.offset_ns) > 190'000'000'000);
    }
    for (std::int64_t at = 300'000'000; at <= 900'000'000; at += 100'000'000) {
      const std::int64_t local = host.of(start_ns + at) - host.of(start_ns);
      // Between two comparisons the error is at most theirs; outside of them drift adds to it.
      CHECK(std::abs(clock.time_of(rank, local) - clock.time_of(0, at)) <=
            2 * clock.error_ns() + 100'000);
    }
  }
}

}  // namespace ronde
