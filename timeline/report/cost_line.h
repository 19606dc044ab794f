// What a bundle costs by its bytes: a line through the middle times of each size, and how well that
// is known.
#pragma once

#include <vector>

namespace ronde::report {

/// A bundle takes start_ns + ns_per_byte * bytes. Errors are standard errors.
struct CostLine {
  bool known = false;  ///< Bundles differ enough in size to tell the two apart.
  double start_ns = 0;
  double start_error = 0;
  double ns_per_byte = 0;
  double byte_error = 0;
};

/// Fits bundles of `bytes` that took `ns`. Sizes count by their medians, so that a bundle which was
/// held up once decides nothing. Neither part is below 0. Where sizes differ by less than a factor
/// of two it is not known.
CostLine fit_costs(const std::vector<double>& bytes, const std::vector<double>& ns);

}  // namespace ronde::report
