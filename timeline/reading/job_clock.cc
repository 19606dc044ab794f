#include "timeline/reading/job_clock.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "timeline/reading/trace_reader.h"

namespace ronde {
namespace {

constexpr std::int64_t kShortestStretchNs = 500'000'000;
constexpr std::int64_t kLongestStretchNs = 10'000'000'000;
constexpr std::int64_t kStretches = 4;
constexpr int kRefinements = 3;       // each improves the estimate of drift
constexpr double kUsualDrift = 2e-4;  // at most, of two clocks, if not measured
constexpr double kMostDrift = 1e-3;   // no quartz drifts more: larger values are noise

using Samples = std::vector<ClockSample>;  // by time
using Knot = ClockKnot;
using Knots = std::vector<Knot>;

/// Before the first and after the last knot the nearest drift continues.
std::int64_t offset_at(const Knots& knots, std::int64_t local_ns) {
  if (knots.size() == 1) return knots.front().offset_ns;
  auto next = std::ranges::upper_bound(knots, local_ns, {}, &Knot::local_ns);
  next = std::clamp(next, knots.begin() + 1, knots.end() - 1);
  const Knot& from = *(next - 1);
  const auto length = static_cast<double>(next->local_ns - from.local_ns);
  const auto change = static_cast<double>(next->offset_ns - from.offset_ns);
  const double drift = length > 0 ? std::clamp(change / length, -kMostDrift, kMostDrift) : 0;
  const auto since = static_cast<double>(local_ns - from.local_ns);
  return from.offset_ns + std::llround(drift * since);
}

/// The comparisons of one knot's stretch.
struct Stretch {
  std::int64_t first_ns = 0;
  std::int64_t last_ns = 0;
  /// Bounds of the offset, less that of the knots. Each comparison gives one from above by its
  /// request and one from below by its answer; the closest of each seldom belong to one comparison.
  std::int64_t above = std::numeric_limits<std::int64_t>::max();
  std::int64_t below = std::numeric_limits<std::int64_t>::min();
};

/// By knot.
std::vector<Stretch> stretches_of(const Knots& knots, const Samples& samples) {
  std::vector<Stretch> stretches;
  auto sample = samples.begin();
  for (const Knot& knot : knots) {
    Stretch& stretch = stretches.emplace_back(Stretch{.first_ns = sample->local_ns});
    for (; sample != samples.end() && sample->local_ns < knot.end_ns; ++sample) {
      const std::int64_t rest = sample->offset_ns - offset_at(knots, sample->local_ns);
      stretch.above = std::min(stretch.above, rest + sample->error_ns);
      stretch.below = std::max(stretch.below, rest - sample->error_ns);
      stretch.last_ns = sample->local_ns;
    }
  }
  return stretches;
}

/// How far the drift between two knots extends beyond them, in units of their distance: 1, or at
/// the ends up to the next expected comparison.
double reach_of(const Knots& knots, std::size_t at, const Samples& samples) {
  const std::int64_t first = samples.front().local_ns;
  const std::int64_t last = samples.back().local_ns;
  const std::int64_t interval = (last - first) / static_cast<std::int64_t>(samples.size());
  const std::int64_t distance = knots[at + 1].local_ns - knots[at].local_ns;
  std::int64_t reach = distance;
  if (at == 0) reach = std::max(reach, knots.front().local_ns - first + interval);
  if (at + 2 == knots.size()) reach = std::max(reach, last + interval - knots.back().local_ns);
  return static_cast<double>(reach) / static_cast<double>(std::max<std::int64_t>(1, distance));
}

/// In each stretch the fastest message of either direction bounds the offset, if the offset is
/// constant. It drifts: the drift between two knots is as uncertain as the knots. Where the bounds
/// cross, the offset changed at least that much.
std::int64_t error_of(const Knots& knots, const Samples& samples) {
  std::vector<std::int64_t> own;
  for (const auto& [first, last, above, below] : stretches_of(knots, samples)) {
    own.push_back(std::max(std::abs(above), std::abs(below)) +
                  std::max<std::int64_t>(0, below - above));
  }
  const std::int64_t span = samples.back().local_ns - samples.front().local_ns;
  if (own.size() == 1) {
    return own.front() + std::llround(kUsualDrift * static_cast<double>(span));
  }
  std::int64_t error = 0;
  for (std::size_t i = 0; i + 1 < own.size(); ++i) {
    const double reach = reach_of(knots, i, samples);
    const std::int64_t drift = std::llround(static_cast<double>(own[i] + own[i + 1]) * reach);
    error = std::max(error, std::max(own[i], own[i + 1]) + drift);
  }
  return error;
}

Knots refined(const Knots& knots, const Samples& samples) {
  Knots better;
  for (const auto& [first, last, above, below] : stretches_of(knots, samples)) {
    const std::int64_t middle = first + (last - first) / 2;
    better.push_back({middle, offset_at(knots, middle) + (above + below) / 2,
                      std::max<std::int64_t>(1, std::abs(above - below) / 2),
                      knots[better.size()].end_ns});
  }
  return better;
}

Knots knots_of(Samples& samples) {
  std::ranges::sort(samples, {}, &ClockSample::local_ns);
  const std::int64_t span = samples.back().local_ns - samples.front().local_ns;
  const std::int64_t stretch = std::clamp(span / kStretches, kShortestStretchNs, kLongestStretchNs);
  const std::int64_t last = std::max<std::int64_t>(0, span / stretch - 1);  // includes the rest
  Knots knots;
  std::int64_t current = -1;
  for (const ClockSample& sample : samples) {
    const std::int64_t index =
        std::min((sample.local_ns - samples.front().local_ns) / stretch, last);
    const std::int64_t end_ns = index == last ? std::numeric_limits<std::int64_t>::max()
                                              : samples.front().local_ns + (index + 1) * stretch;
    const Knot knot{sample.local_ns, sample.offset_ns, sample.error_ns, end_ns};
    if (index != current) {
      knots.push_back(knot);
    } else if (sample.error_ns < knots.back().error_ns) {
      knots.back() = knot;
    }
    current = index;
  }
  return knots;
}

}  // namespace

JobClock::JobClock(const std::vector<TraceClock>& traces) {
  collect(traces);
  for (auto& [boot, host] : hosts_) choose_reference(boot, host);
  for (auto& [boot, host] : hosts_) follow(host);
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const std::int64_t start = wall_of(i, 0);
    first_ns_ = i == 0 ? start : std::min(first_ns_, start);
  }
}

void JobClock::collect(const std::vector<TraceClock>& traces) {
  for (const auto& [info, samples] : traces) {
    const std::int64_t wall_ns = info.epoch_start_us * 1000;
    if (info.boot_id.empty()) {
      traces_.push_back({nullptr, wall_ns});
      continue;
    }
    const auto [at, added] = hosts_.try_emplace(info.boot_id);
    Host& host = at->second;
    if (added) host.to_wall_ns = wall_ns - info.steady_start_ns;
    host.samples.insert(host.samples.end(), samples.begin(), samples.end());
    traces_.push_back({&host, info.steady_start_ns});
  }
}

/// Each host follows one other. A host that would follow itself over others follows none.
void JobClock::choose_reference(const std::string& boot, Host& host) {
  std::erase_if(host.samples, [&](const ClockSample& sample) { return sample.reference == boot; });
  if (host.samples.empty()) return;
  const std::string reference = host.samples.front().reference;
  const auto other = hosts_.find(reference);
  if (other != hosts_.end()) host.reference = &other->second;
  for (const Host* at = host.reference; at != nullptr; at = at->reference) {
    if (at != &host) continue;
    host.reference = nullptr;
    host.samples.clear();
    return;
  }
  std::erase_if(host.samples,
                [&](const ClockSample& sample) { return sample.reference != reference; });
}

void JobClock::follow(Host& host) {
  if (host.samples.empty()) return;
  host.knots = knots_of(host.samples);
  for (int i = 0; i < kRefinements; ++i) host.knots = refined(host.knots, host.samples);
  error_ns_ = std::max(error_ns_, error_of(host.knots, host.samples));
  if (host.reference == nullptr) host.to_wall_ns -= host.knots.front().offset_ns;
}

std::int64_t JobClock::wall_of(std::size_t trace, std::int64_t ns) const {
  const auto& [own, start_ns] = traces_[trace];
  std::int64_t at_ns = start_ns + ns;
  const Host* host = own;
  while (host != nullptr) {
    if (!host->knots.empty()) at_ns += offset_at(host->knots, at_ns);
    if (host->reference == nullptr) return at_ns + host->to_wall_ns;
    host = host->reference;
  }
  return at_ns;
}

std::int64_t JobClock::time_of(std::size_t trace, std::int64_t ns) const {
  return wall_of(trace, ns) - first_ns_;
}

std::vector<std::size_t> reading_order(const std::vector<TraceClock>& traces) {
  std::vector<std::size_t> order(traces.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t index) {
    const RecordingInfo& info = traces[index].info;
    return std::tuple(!info.launcher, info.row(), info.epoch, info.part);
  });
  return order;
}

bool goes_on(const RecordingInfo& info, const RecordingInfo& next) {
  return info.part > 0 && next.part > info.part && info.boot_id == next.boot_id &&
         info.steady_start_ns == next.steady_start_ns;
}

Status read_clock_samples(const std::vector<std::string>& paths, std::vector<TraceClock>& traces) {
  const bool one_host = std::ranges::all_of(traces, [&](const TraceClock& trace) {
    return trace.info.boot_id == traces.front().info.boot_id;
  });
  if (one_host) return {};
  for (std::size_t i = 0; i < paths.size(); ++i) {
    RONDE_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::open(paths[i]));
    for (;;) {
      RONDE_ASSIGN_OR_RETURN(const std::optional<RawEvent> event, reader.next());
      if (!event) break;
      if (auto sample = parse_clock_sample(event->text)) {
        traces[i].samples.push_back(std::move(*sample));
      }
    }
  }
  return {};
}

}  // namespace ronde
