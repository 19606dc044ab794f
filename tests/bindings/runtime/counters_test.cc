#include "bindings/runtime/counters.h"

#include <doctest/doctest.h>

#include <string>
#include <thread>

namespace ronde {

TEST_CASE("CounterSampler: it tells what is in flight and how fast, while it may read the meter") {
  Meter meter;
  CounterSampler sampler;
  CHECK(sampler.sample().empty());
  sampler.start(meter);
  meter.submitted(0, 100);
  meter.ended(EndedBundle{.tensors = 1, .bytes = 5'000'000, .duration_ns = 1});
  const auto counters = sampler.sample();
  REQUIRE(counters.size() == 3);
  CHECK(counters[0].name == "queue length");
  CHECK(counters[0].value == 1);
  CHECK(counters[1].name == "bytes in flight");
  CHECK(counters[1].value == 100);
  CHECK(counters[2].name == "throughput in MB/s");
  CHECK(sampler.sample().empty());  // too soon
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  meter.ended(EndedBundle{.tensors = 1, .bytes = 5'000'000, .duration_ns = 1});
  const auto later = sampler.sample();
  REQUIRE(later.size() == 3);
  CHECK(later[2].value > 0);
  sampler.stop();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK(sampler.sample().empty());
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
