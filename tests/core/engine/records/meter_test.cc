#include "core/engine/records/meter.h"

#include <doctest/doctest.h>

namespace ronde {
namespace {

EndedOperation operation_of(Code code) {
  return {.kind = 2,
          .bytes = 8,
          .code = code,
          .submitted_ns = 1000,
          .agreed_ns = 21'000,
          .ended_ns = 301'000};
}

std::uint64_t all_of(const DurationHistogram& durations) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i <= DurationHistogram::kBoundsNs.size(); ++i) {
    sum += durations.in_bucket(i);
  }
  return sum;
}

}  // namespace

TEST_CASE("DurationHistogram: a bound belongs to its bucket, and the last one takes the rest") {
  DurationHistogram durations;
  durations.add(10'000);
  durations.add(10'001);
  durations.add(-5);
  durations.add(60'000'000'000);
  CHECK(durations.in_bucket(0) == 2);
  CHECK(durations.in_bucket(1) == 1);
  CHECK(durations.in_bucket(DurationHistogram::kBoundsNs.size()) == 1);
  CHECK(durations.sum_ns() == 60'000'020'001);
}

TEST_CASE("Meter: what is under way is what was submitted and has not ended") {
  Meter meter;
  meter.submitted(2, 8);
  meter.submitted(0, 100);
  CHECK(meter.in_flight() == 2);
  CHECK(meter.bytes_in_flight() == 108);
  meter.ended(operation_of(Code::kOk));
  CHECK(meter.in_flight() == 1);
  CHECK(meter.bytes_in_flight() == 100);
}

TEST_CASE("Meter: an operation that failed counts as an error, and has no latency") {
  Meter meter;
  meter.submitted(2, 8);
  meter.submitted(2, 8);
  meter.ended(operation_of(Code::kOk));
  meter.ended(operation_of(Code::kStalled));
  const KindMeter& kind = meter.kind(2);
  CHECK(kind.ended.get() == 2);
  CHECK(kind.failed[static_cast<std::size_t>(Code::kStalled)].get() == 1);
  CHECK(all_of(kind.latency) == 1);
  CHECK(kind.latency.sum_ns() == 300'000);
  CHECK(kind.lead.sum_ns() == 20'000);
}

TEST_CASE("Meter: queues add what their negotiations have done since they were last counted") {
  Meter meter;
  AgreementStats first;
  AgreementStats second;
  meter.negotiated(first, {.cached_agreements = 3, .full_agreements = 1});
  meter.negotiated(second, {.cached_agreements = 10});
  meter.negotiated(first,
                   {.cached_agreements = 5, .full_agreements = 1, .evictions = 1, .payloads = 2});
  CHECK(meter.cache_hits.get() == 15);
  CHECK(meter.cache_misses.get() == 1);
  CHECK(meter.cache_evictions.get() == 1);
  CHECK(meter.payloads.get() == 2);
}

}  // namespace ronde
