#include "timeline/report/cost_curve.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <map>
#include <utility>

#include "timeline/report/statistics.h"

namespace ronde::report {
namespace {

constexpr double kSizesPerDoubling = 8;
constexpr double kOnePacket = 1024;      // bytes; below, times do not depend on the size
constexpr double kLeastSpread = 2;       // of sizes
constexpr double kLeastError = 0.02;     // of a median, however many there are
constexpr std::size_t kEnoughTimes = 8;  // to estimate their spread

/// Bundles of about one size.
struct Times {
  std::vector<double> bytes;
  std::vector<double> ns;
};

std::vector<Times> by_size(const std::vector<double>& bytes, const std::vector<double>& ns) {
  std::map<long, Times> sizes;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const double size = std::max(kOnePacket, bytes[i]);
    Times& times = sizes[std::lround(kSizesPerDoubling * std::log2(size))];
    times.bytes.push_back(bytes[i]);
    times.ns.push_back(ns[i]);
  }
  std::vector<Times> list;
  list.reserve(sizes.size());
  for (auto& [key, times] : sizes) list.push_back(std::move(times));
  return list;
}

/// Relative error of a single time, over all sizes with enough times.
double usual_error(const std::vector<Times>& sizes) {
  std::vector<double> shares;
  for (const Times& times : sizes) {
    const double middle = median(times.ns);
    if (times.ns.size() < kEnoughTimes || middle <= 0) continue;
    shares.push_back(median_error(times.ns) * std::sqrt(static_cast<double>(times.ns.size())) /
                     middle);
  }
  return shares.empty() ? 0.5 : median(shares);
}

CostPoint point_of(const Times& times, double usual) {
  const auto count = static_cast<double>(times.ns.size());
  CostPoint point{mean(times.bytes), count, {median(times.ns), 0}};
  const double error = times.ns.size() >= kEnoughTimes ? median_error(times.ns)
                                                       : usual * point.time.ns / std::sqrt(count);
  point.time.error = std::max(kLeastError * point.time.ns, error);
  return point;
}

std::vector<CostPoint> points_of(const std::vector<Times>& sizes) {
  const double usual = usual_error(sizes);
  std::vector<CostPoint> points;
  points.reserve(sizes.size());
  double most_ns = 0;
  for (const Times& times : sizes) {
    CostPoint& point = points.emplace_back(point_of(times, usual));
    most_ns = point.time.ns = std::max(most_ns, point.time.ns);
  }
  return points;
}

/// Least squares with equal weights, clamped to non-negative values.
void draw_line(CostCurve& curve) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const CostPoint& point : curve.points) {
    n += point.count;
    x += point.count * point.bytes;
    y += point.count * point.time.ns;
    xx += point.count * point.bytes * point.bytes;
    xy += point.count * point.bytes * point.time.ns;
  }
  curve.ns_per_byte = std::max(0.0, (n * xy - x * y) / (n * xx - x * x));
  curve.start_ns = (y - curve.ns_per_byte * x) / n;
  if (curve.start_ns >= 0) return;
  curve.start_ns = 0;
  curve.ns_per_byte = xy / xx;
}

/// Close points extrapolate badly.
bool far_apart(const CostPoint& small, const CostPoint& large) {
  return large.bytes >= kLeastSpread * small.bytes;
}

/// The two points whose line is used at `bytes`.
std::pair<std::size_t, std::size_t> line_of(const std::vector<CostPoint>& points, double bytes) {
  const auto index = [&](auto point) { return static_cast<std::size_t>(point - points.begin()); };
  const auto next = std::ranges::lower_bound(points, bytes, {}, &CostPoint::bytes);
  if (next == points.begin()) {
    const CostPoint& first = points.front();
    return {0, index(std::ranges::find_if(
                   points, [&](const CostPoint& point) { return far_apart(first, point); }))};
  }
  if (next != points.end()) return {index(next) - 1, index(next)};
  const CostPoint& last = points.back();
  const auto before = std::find_if(points.rbegin(), points.rend(),
                                   [&](const CostPoint& point) { return far_apart(point, last); });
  return {index(before.base()) - 1, points.size() - 1};
}

}  // namespace

CostCurve fit_costs(const std::vector<double>& bytes, const std::vector<double>& ns) {
  CostCurve curve{.points = points_of(by_size(bytes, ns))};
  curve.known = !curve.points.empty() && far_apart(curve.points.front(), curve.points.back());
  if (curve.known) draw_line(curve);
  return curve;
}

CostSum::CostSum(const CostCurve& curve)
    : points_(curve.points), weights_(curve.points.size(), 0.0) {}

void CostSum::add(double weight, double bytes) {
  const auto [a, b] = line_of(points_, bytes);
  const CostPoint& from = points_[a];
  const CostPoint& to = points_[b];
  const double share = (bytes - from.bytes) / (to.bytes - from.bytes);
  ns_ += weight * std::max(0.0, from.time.ns + share * (to.time.ns - from.time.ns));
  weights_[a] += weight * (1 - share);
  weights_[b] += weight * share;
}

Estimate CostSum::total() const {
  double error = 0;
  for (std::size_t i = 0; i < points_.size(); ++i) {
    error = std::hypot(error, weights_[i] * points_[i].time.error);
  }
  return {ns_, error};
}

Estimate cost_at(const CostCurve& curve, double bytes) {
  CostSum sum(curve);
  sum.add(1, bytes);
  return sum.total();
}

}  // namespace ronde::report
