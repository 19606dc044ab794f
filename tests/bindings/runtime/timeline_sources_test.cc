#include "bindings/runtime/timeline_sources.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "timeline/recording/machine_probe.h"

namespace ronde {
namespace {

/// Rank `rank` of four on two hosts.
Topology on_two_hosts(int rank) {
  return {rank, {{0, "a", 1}, {0, "a", 2}, {1, "b", 3}, {1, "b", 4}}};
}

}  // namespace

TEST_CASE("compares_clocks: the first rank of each host but rank 0's does") {
  for (const int rank : {0, 1, 2, 3}) {
    CAPTURE(rank);
    CHECK(compares_clocks(on_two_hosts(rank)) == (rank == 2));
  }
}

TEST_CASE("CounterSampler: it tells what is in flight and how fast") {
  Meter meter;
  CounterSampler sampler(meter);
  meter.submitted(0, 100);
  meter.ended(EndedBundle{.tensors = 1, .bytes = 5'000'000, .duration_ns = 1});
  const TimePoint sampled = now();
  const auto counters = sampler.sample();
  REQUIRE(counters.size() == 4);
  CHECK(counters[0].name == "queue length");
  CHECK(counters[0].value == 1);
  CHECK(counters[1].name == "bytes in flight");
  CHECK(counters[1].value == 100);
  CHECK(counters[2].name == "throughput in MB/s");
  CHECK(counters[3].name == kCpuCounter);
  const bool is_told = !sampler.sample().empty();
  CHECK((!is_told || now() - sampled >= std::chrono::milliseconds(20)));  // else it is too soon
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  meter.ended(EndedBundle{.tensors = 1, .bytes = 5'000'000, .duration_ns = 1});
  const auto later = sampler.sample();
  REQUIRE(later.size() == 4);
  CHECK(later[2].value > 0);
  CHECK(later[3].value >= counters[3].value);
}

TEST_CASE("CounterSampler: a machine's own speed is measured") {
  const auto counters = measure_machine();
  REQUIRE_FALSE(counters.empty());
  for (const CounterSample& counter : counters) {
    CAPTURE(std::string(counter.name));
    CHECK(counter.value > 0);
  }
}

}  // namespace ronde
