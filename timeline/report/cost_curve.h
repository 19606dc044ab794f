// What a bundle costs by its bytes, as those of a job took: the middle time of each size, what lies
// between and beyond, and how well that is known.
#pragma once

#include <vector>

namespace ronde::report {

/// A cost that is known up to a standard error.
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
  bool known = false;  ///< Bundles differ enough in size to tell what others would cost.
  std::vector<CostPoint> points = {};  ///< By bytes. No larger bundle takes less than a smaller.
  /// The line closest to the points, for people: start_ns + ns_per_byte * bytes, neither below 0.
  double start_ns = 0;
  double ns_per_byte = 0;
};

/// The curve of bundles of `bytes` that took `ns`. Sizes count by their medians, so that a bundle
/// which was held up once decides nothing. Where sizes differ by less than a factor of two the
/// curve is not known.
CostCurve fit_costs(const std::vector<double>& bytes, const std::vector<double>& ns);

/// Adds up what bundles take on a curve that is known, each so often as it is weighed: between the
/// sizes that were seen on the straight line between these, outside on the line of the outermost
/// ones. What is not known of a size is so of all bundles that are told from it: what one takes
/// less than another like it is known better than what either takes. The curve must outlive it.
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

/// What a bundle of `bytes` takes.
Estimate cost_at(const CostCurve& curve, double bytes);

}  // namespace ronde::report
