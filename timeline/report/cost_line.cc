#include "timeline/report/cost_line.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>

#include "timeline/report/statistics.h"

namespace ronde::report {
namespace {

constexpr double kSizesPerDoubling = 8;
constexpr double kLeastSpread = 2;       // of sizes
constexpr double kLeastError = 0.02;     // of a median, however many there are
constexpr std::size_t kEnoughTimes = 8;  // to tell their spread

/// Bundles of about one size.
struct Times {
  std::vector<double> bytes;
  std::vector<double> ns;
};

struct Point {
  double bytes = 0;
  double ns = 0;
  double error = 0;
};

std::vector<Times> by_size(const std::vector<double>& bytes, const std::vector<double>& ns) {
  std::map<long, Times> sizes;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    Times& times = sizes[std::lround(kSizesPerDoubling * std::log2(std::max(1.0, bytes[i])))];
    times.bytes.push_back(bytes[i]);
    times.ns.push_back(ns[i]);
  }
  std::vector<Times> list;
  list.reserve(sizes.size());
  for (auto& [key, times] : sizes) list.push_back(std::move(times));
  return list;
}

/// The error of a median of one time, as a share of it, over all sizes that come often enough.
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

Point point_of(const Times& times, double usual) {
  Point point{mean(times.bytes), median(times.ns), 0};
  const double error = times.ns.size() >= kEnoughTimes
                           ? median_error(times.ns)
                           : usual * point.ns / std::sqrt(static_cast<double>(times.ns.size()));
  point.error = std::max({1.0, kLeastError * point.ns, error});
  return point;
}

/// Sums of a weighted fit.
struct Sums {
  double w = 0, x = 0, y = 0, xx = 0, xy = 0;
};

Sums sums_of(const std::vector<Point>& points) {
  Sums sums;
  for (const Point& point : points) {
    const double w = 1 / (point.error * point.error);
    sums.w += w;
    sums.x += w * point.bytes;
    sums.y += w * point.ns;
    sums.xx += w * point.bytes * point.bytes;
    sums.xy += w * point.bytes * point.ns;
  }
  return sums;
}

/// Neither sending nor starting takes less than no time.
void keep_sensible(const Sums& sums, CostLine& line) {
  if (line.ns_per_byte < 0) {
    line.ns_per_byte = 0;
    line.start_ns = sums.y / sums.w;
  } else if (line.start_ns < 0) {
    line.start_ns = 0;
    line.ns_per_byte = sums.xy / sums.xx;
  }
}

/// By how much points are farther from the line than their own errors explain; 1 or more.
double misfit(const std::vector<Point>& points, const CostLine& line) {
  if (points.size() < 3) return 1;
  double sum = 0;
  for (const Point& point : points) {
    const double off = point.ns - line.start_ns - line.ns_per_byte * point.bytes;
    sum += off * off / (point.error * point.error);
  }
  return std::sqrt(std::max(1.0, sum / static_cast<double>(points.size() - 2)));
}

}  // namespace

CostLine fit_costs(const std::vector<double>& bytes, const std::vector<double>& ns) {
  const std::vector<Times> sizes = by_size(bytes, ns);
  const double usual = usual_error(sizes);
  std::vector<Point> points;
  points.reserve(sizes.size());
  for (const Times& times : sizes) points.push_back(point_of(times, usual));
  if (points.empty() || points.back().bytes < kLeastSpread * points.front().bytes) return {};
  const Sums sums = sums_of(points);
  const double determinant = sums.w * sums.xx - sums.x * sums.x;
  CostLine line{.known = true};
  line.ns_per_byte = (sums.w * sums.xy - sums.x * sums.y) / determinant;
  line.start_ns = (sums.y - line.ns_per_byte * sums.x) / sums.w;
  keep_sensible(sums, line);
  const double factor = misfit(points, line);
  line.start_error = factor * std::sqrt(sums.xx / determinant);
  line.byte_error = factor * std::sqrt(sums.w / determinant);
  return line;
}

}  // namespace ronde::report
