#include "bindings/runtime/timeline_sources.h"

#include <array>
#include <chrono>
#include <cmath>
#include <new>
#include <utility>

#include "ops/compression/auto/cost_model.h"
#include "timeline/recording/machine_probe.h"
#include "timeline/recording/trace_head.h"

namespace ronde {
namespace {

constexpr std::chrono::milliseconds kInterval{200};

/// True on the first rank of each host, except rank 0's host.
bool compares_clocks(const Topology& topology) {
  return !topology.same_host(0, topology.rank) &&
         topology.host_ranks(topology.rank).front() == topology.rank;
}

}  // namespace

ClockComparison::ClockComparison(const Topology& topology)
    : compares_(compares_clocks(topology)), sync_(this_boot_id(), steady_ns) {}

void ClockComparison::start(Send send) {
  const MutexLock lock(mutex_);
  send_ = std::move(send);
}

void ClockComparison::stop() {
  const MutexLock lock(mutex_);
  send_ = nullptr;
}

std::vector<ClockSample> ClockComparison::take() {
  const MutexLock lock(mutex_);
  if (compares_ && send_ && now() >= next_) {
    next_ = now() + kInterval;
    send_(0, [this] { return sync_.request(); });
  }
  return sync_.take();
}

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

void CounterSampler::start(const Meter& meter) {
  const MutexLock lock(mutex_);
  meter_ = &meter;
}

void CounterSampler::stop() {
  const MutexLock lock(mutex_);
  meter_ = nullptr;
}

std::vector<CounterSample> CounterSampler::sample() {
  const MutexLock lock(mutex_);
  const TimePoint time = now();
  if (meter_ == nullptr || time - sampled_ < kShortestInterval) return {};
  const std::uint64_t bytes = meter_->bundled_bytes.get();
  const double seconds = std::chrono::duration<double>(time - sampled_).count();
  const double rate = static_cast<double>(bytes - sampled_bytes_) / seconds / 1e6;
  sampled_ = time;
  sampled_bytes_ = bytes;
  return {{"queue length", static_cast<double>(meter_->in_flight())},
          {"bytes in flight", static_cast<double>(meter_->bytes_in_flight())},
          {"throughput in MB/s", std::round(rate * 1000) / 1000},
          {kCpuCounter, process_cpu_ms()}};
}

std::vector<CounterSample> measure_machine() {
  std::vector<CounterSample> counters = measure_coding();
  counters.push_back({kMemoryCopyCounter, std::round(measure_copy_gbps() * 100) / 100});
  return counters;
}

}  // namespace ronde
