#include "core/engine/records/meter.h"

#include <algorithm>

namespace ronde {
namespace {

std::uint64_t difference(std::uint64_t more, std::uint64_t less) noexcept {
  return more > less ? more - less : 0;
}

/// Begun less ended over `all` kinds. Ends are read first, so the result is never too small.
template <typename Kinds>
std::uint64_t under_way(const Kinds& all, Counter KindMeter::*ended, Counter KindMeter::*begun) {
  std::uint64_t ends = 0;
  std::uint64_t begins = 0;
  for (const KindMeter& kind : all) ends += (kind.*ended).get();
  for (const KindMeter& kind : all) begins += (kind.*begun).get();
  return difference(begins, ends);
}

}  // namespace

void DurationHistogram::add(std::int64_t ns) noexcept {
  ns = std::max<std::int64_t>(0, ns);
  const auto* const bound = std::lower_bound(kBoundsNs.begin(), kBoundsNs.end(), ns);
  buckets_[static_cast<std::size_t>(bound - kBoundsNs.begin())].add();
  sum_ns_.add(static_cast<std::uint64_t>(ns));
}

void Meter::submitted(int kind, std::uint64_t bytes) noexcept {
  KindMeter& meter = kinds_[static_cast<std::size_t>(kind)];
  meter.submitted.add();
  meter.submitted_bytes.add(bytes);
}

void Meter::ended(const EndedOperation& operation) noexcept {
  KindMeter& meter = kinds_[static_cast<std::size_t>(operation.kind)];
  meter.ended.add();
  meter.ended_bytes.add(operation.bytes);
  if (operation.code != Code::kOk) {
    meter.failed[static_cast<std::size_t>(operation.code)].add();
    return;
  }
  meter.latency.add(operation.ended_ns - operation.submitted_ns);
  if (operation.agreed_ns != 0) meter.lead.add(operation.agreed_ns - operation.submitted_ns);
  if (first_ended_ns() != 0) return;
  std::int64_t none = 0;
  first_ended_ns_.compare_exchange_strong(none, operation.ended_ns, std::memory_order_relaxed);
}

void Meter::ended(const EndedBundle& bundle) noexcept {
  bundles.add();
  bundled_tensors.add(bundle.tensors);
  bundled_bytes.add(bundle.bytes);
  bundle_time.add(bundle.duration_ns);
}

void Meter::negotiated(AgreementStats& before, const AgreementStats& after) noexcept {
  cache_hits.add(after.cached_agreements - before.cached_agreements);
  cache_misses.add(after.full_agreements - before.full_agreements);
  cache_evictions.add(after.evictions - before.evictions);
  payloads.add(after.payloads - before.payloads);
  frames_sent.add(after.frames_sent - before.frames_sent);
  before = after;
}

std::uint64_t Meter::in_flight() const noexcept {
  return under_way(kinds_, &KindMeter::ended, &KindMeter::submitted);
}

std::uint64_t Meter::bytes_in_flight() const noexcept {
  return under_way(kinds_, &KindMeter::ended_bytes, &KindMeter::submitted_bytes);
}

}  // namespace ronde
