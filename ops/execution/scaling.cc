#include "ops/execution/scaling.h"

#include <bit>
#include <cmath>
#include <limits>

namespace ronde {

namespace {

// value / divisor, rounded away from zero where it is not exact.
double quotient_away_from_zero(double value, double divisor) {
  const double quotient = value / divisor;
  const double missing = std::fma(-quotient, divisor, value);
  if (missing == 0.0 || std::signbit(missing) != std::signbit(value)) return quotient;
  return std::nextafter(quotient, std::copysign(std::numeric_limits<double>::infinity(), value));
}

Scaling average_scaling(const ReductionRequest& request, int ranks) {
  const double size = ranks;
  if (is_narrow_floating(request.dtype)) {
    const double power = std::bit_ceil(static_cast<unsigned>(ranks));
    return {request.prescale / power, request.postscale * power / size};
  }
  if (is_floating(request.dtype)) return {request.prescale, request.postscale / size};
  return {request.prescale, quotient_away_from_zero(request.postscale, size)};
}

}  // namespace

Reduction reduction_for(const ReductionRequest& request, int ranks) noexcept {
  if (request.op != ReduceOp::kAverage) {
    return {request.dtype, request.op, {request.prescale, request.postscale}};
  }
  return {request.dtype, ReduceOp::kSum, average_scaling(request, ranks)};
}

}  // namespace ronde
