#include "bindings/runtime/timeline_sources.h"

#include <array>
#include <chrono>
#include <cmath>
#include <new>
#include <utility>

#include "ops/compression/auto/cost_model.h"
#include "timeline/recording/machine_probe.h"

namespace ronde {
namespace {

constexpr std::chrono::milliseconds kShortestInterval{20};

/// The cost of codecs on this machine; empty where there is no memory to measure with.
std::vector<CounterSample> measure_coding() try {
  const std::array kinds{CodecKind::kFp16, CodecKind::kInt8};
  const CodecCosts costs = measure_codecs(kinds);
  const auto ns_per_byte = [&](CodecKind kind) {
    return costs[static_cast<std::size_t>(kind)] * 1e9 / sizeof(float);
  };
  return {{kFp16CodingCounter, ns_per_byte(CodecKind::kFp16)},
          {kInt8CodingCounter, ns_per_byte(CodecKind::kInt8)}};
} catch (const std::bad_alloc&) {
  return {};
}

}  // namespace

bool compares_clocks(const Topology& topology) {
  return !topology.same_host(0, topology.rank) &&
         topology.host_ranks(topology.rank).front() == topology.rank;
}

std::vector<CounterSample> CounterSampler::sample() {
  const MutexLock lock(mutex_);
  const TimePoint time = now();
  if (time - sampled_ < kShortestInterval) return {};
  const std::uint64_t bytes = meter_.bundled_bytes.get();
  const double seconds = std::chrono::duration<double>(time - sampled_).count();
  const double rate = static_cast<double>(bytes - sampled_bytes_) / seconds / 1e6;
  sampled_ = time;
  sampled_bytes_ = bytes;
  return {{"queue length", static_cast<double>(meter_.in_flight())},
          {"bytes in flight", static_cast<double>(meter_.bytes_in_flight())},
          {"throughput in MB/s", std::round(rate * 1000) / 1000},
          {kCpuCounter, process_cpu_ms()}};
}

std::vector<CounterSample> measure_machine() {
  std::vector<CounterSample> counters = measure_coding();
  counters.push_back({kMemoryCopyCounter, std::round(measure_copy_gbps() * 100) / 100});
  return counters;
}

}  // namespace ronde
