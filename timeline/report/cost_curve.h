// The time of a bundle by its bytes, from the bundles of a job: medians at each size, straight
// lines between and beyond, standard errors.
#pragma once

#include <vector>

namespace ronde::report {

/// A time and its standard error.
struct Estimate {
  double ns = 0;
  double error = 0;
};

/// Bundles of about one size.
struct CostPoint {
  double bytes = 0;
  double count = 0;
  Estimate time;  ///< The median.
};

struct CostCurve {
  bool known = false;                  ///< Sizes differ enough for predictions.
  std::vector<CostPoint> points = {};  ///< By bytes. Times never decrease.
  /// The line closest to the points, for display: start_ns + ns_per_byte * bytes, neither below 0.
  double start_ns = 0;
  double ns_per_byte = 0;
};

/// Fits the curve of bundles of `bytes` that took `ns`. Each size counts by its median, which
/// ignores single outliers. The curve is unknown if sizes differ by less than a factor of two.
CostCurve fit_costs(const std::vector<double>& bytes, const std::vector<double>& ns);

/// Weighted sum of bundles' times on a known curve. Sizes between two points lie on the line
/// between them, others on the line of the outermost points. Errors of a point are shared by all
/// bundles that depend on it, so differences of similar bundles have small errors. The curve must
/// outlive it.
class CostSum {
 public:
  explicit CostSum(const CostCurve& curve);
  void add(double weight, double bytes);
  [[nodiscard]] Estimate total() const;

 private:
  const std::vector<CostPoint>& points_;
  std::vector<double> weights_;  ///< Of each point's time.
  double ns_ = 0;
};

/// The time of a bundle of `bytes`.
Estimate cost_at(const CostCurve& curve, double bytes);

}  // namespace ronde::report
