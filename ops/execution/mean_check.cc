#include "ops/execution/mean_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "core/base/log.h"

namespace ronde {
namespace {

constexpr std::size_t kBlock = 32'768;  // elements that ranks exchange at a time
constexpr std::uint64_t kBetweenReports = 100;
constexpr std::chrono::seconds kBetweenMeanWarnings{10};

/// Bits after the point, the least exponent of normal values, and the highest.
struct FloatForm {
  int mantissa;
  int lowest;
  int highest;
};

constexpr FloatForm form_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::kFloat16:
      return {10, -14, 15};
    case DType::kBfloat16:
      return {7, -126, 127};
    case DType::kFloat8E4m3:
      return {3, -6, 8};
    case DType::kFloat8E5m2:
      return {2, -14, 15};
    case DType::kFloat32:
      return {23, -126, 127};
    default:
      return {52, -1022, 1023};
  }
}

bool is_summed(const Bundle& bundle) noexcept {
  return bundle.kind == Collective::kAllreduce && is_floating(bundle.dtype) &&
         bundle.device.kind == DeviceKind::kCpu &&
         (bundle.op == ReduceOp::kSum || bundle.op == ReduceOp::kAverage);
}

std::int64_t bits_of(double value) { return std::bit_cast<std::int64_t>(value); }

std::string text_of(const MeanError& error) {
  return fmt::format("{:.3g} ulp, at element {} on rank {}: {:.9g}, in float64 {:.9g}", error.ulps,
                     error.element, error.rank, error.value, error.exact);
}

}  // namespace

double ulp_at(DType dtype, double magnitude) noexcept {
  const FloatForm form = form_of(dtype);
  const int exponent = magnitude > 0 ? std::ilogb(magnitude) : form.lowest;
  return std::ldexp(1.0, std::max(exponent, form.lowest) - form.mantissa);
}

double error_in_ulps(DType dtype, double value, long double exact, long double magnitude) noexcept {
  if (!std::isfinite(magnitude)) return 0;
  const double limit = std::ldexp(1.0, form_of(dtype).highest);
  if (!std::isfinite(value)) {
    return magnitude < limit ? std::numeric_limits<double>::infinity() : 0;
  }
  const long double off = std::abs(static_cast<long double>(value) - exact);
  return static_cast<double>(off / ulp_at(dtype, static_cast<double>(magnitude)));
}

MeanCheck::~MeanCheck() {
  for (const auto& [name, known] : known_) {
    log(LogLevel::kWarning,
        "RONDE_CHECK_MEAN: {} operations of \"{}\" compared with float64; the "
        "largest error was {}",
        known.checks, name, text_of(known.worst));
  }
}

bool MeanCheck::applies(const Bundle& bundle) noexcept {
  return is_summed(bundle) && std::ranges::any_of(bundle.tensors, &BundleTensor::checks_mean);
}

void MeanCheck::begin(const Bundle& bundle, const Work& work) {
  inputs_.assign(work.segments.size(), {});
  for (std::size_t s = 0; s < work.segments.size(); ++s) {
    const Segment& segment = work.segments[s];
    if (!bundle.tensors[s].checks_mean || segment.in == nullptr) continue;
    inputs_[s].assign(segment.in, segment.in + segment.bytes);
  }
}

Status MeanCheck::end(const Bundle& bundle, const Work& work, bool lossy, const AbortToken& abort) {
  for (std::size_t s = 0; s < work.segments.size(); ++s) {
    const BundleTensor& tensor = bundle.tensors[s];
    if (!tensor.checks_mean) continue;
    RONDE_ASSIGN_OR_RETURN(MeanError error, compare(work, s, abort));
    if (error.element < 0) continue;
    error.element += tensor.begin;
    report(tensor, error, lossy);
  }
  return {};
}

Result<MeanError> MeanCheck::compare(const Work& work, std::size_t segment,
                                     const AbortToken& abort) {
  const DType dtype = work.reduction.dtype;
  const std::size_t width = size_of(dtype);
  const std::size_t count = work.segments[segment].bytes / width;
  const std::vector<std::byte>& input = inputs_[segment];
  const std::byte* const out = work.segments[segment].out;
  MeanError worst;
  for (std::size_t at = 0; at < count; at += kBlock) {
    const std::size_t size = std::min(kBlock, count - at);
    values_.assign(size, 0.0);
    if (!input.empty()) {
      kernels_->cast(dtype, input.data() + at * width, DType::kFloat64, values_.data(), size);
    }
    mine_.resize(size);
    std::ranges::transform(values_, mine_.begin(), bits_of);
    RONDE_ASSIGN_OR_RETURN(const auto all, exchange_.allgather(mine_, abort));
    if (out == nullptr) continue;
    MeanError here = worst_of(work, all, size, out + at * width);
    here.element += static_cast<std::int64_t>(at);
    if (worst.element < 0 || here.ulps > worst.ulps) worst = here;
  }
  return agree(worst, abort);
}

/// The farthest of a block, with its place there.
MeanError MeanCheck::worst_of(const Work& work, std::span<const std::int64_t> all,
                              std::size_t count, const std::byte* out) {
  kernels_->cast(work.reduction.dtype, out, DType::kFloat64, values_.data(), count);
  const Scaling& scaling = work.reduction.scaling;
  const long double factor = static_cast<long double>(scaling.pre) * scaling.post;
  MeanError worst;
  for (std::size_t i = 0; i < count; ++i) {
    long double sum = 0;
    long double magnitude = 0;
    for (std::size_t r = 0; r < static_cast<std::size_t>(size_); ++r) {
      const long double input = std::bit_cast<double>(all[r * count + i]);
      sum += input;
      magnitude += std::abs(input);
    }
    const double ulps =
        error_in_ulps(work.reduction.dtype, values_[i], sum * factor, magnitude * std::abs(factor));
    if (worst.element >= 0 && ulps <= worst.ulps) continue;
    worst = {ulps, static_cast<std::int64_t>(i), rank_, values_[i],
             static_cast<double>(sum * factor)};
  }
  return worst;
}

/// The farthest of all ranks. The first rank whose work has the tensor reports.
Result<MeanError> MeanCheck::agree(MeanError mine, const AbortToken& abort) {
  const std::array<std::int64_t, 4> numbers = {bits_of(mine.ulps), mine.element,
                                               bits_of(mine.value), bits_of(mine.exact)};
  RONDE_ASSIGN_OR_RETURN(const auto all, exchange_.allgather(numbers, abort));
  MeanError worst;
  reporter_ = -1;
  for (std::size_t r = 0; r < static_cast<std::size_t>(size_); ++r) {
    const auto of = all.subspan(r * numbers.size(), numbers.size());
    const auto ulps = std::bit_cast<double>(of[0]);
    if (of[1] < 0) continue;
    if (reporter_ < 0) reporter_ = static_cast<int>(r);
    if (worst.element >= 0 && ulps <= worst.ulps) continue;
    const int rank = options_.ranks.empty() ? static_cast<int>(r) : options_.ranks[r];
    worst = {ulps, of[1], rank, std::bit_cast<double>(of[2]), std::bit_cast<double>(of[3])};
  }
  return worst;
}

/// Of a tensor that is cut into pieces, the first one counts.
void MeanCheck::report(const BundleTensor& tensor, const MeanError& error, bool lossy) {
  const bool beyond = !lossy && !(error.ulps <= mean_error_bound(size_));
  const bool begins = tensor.begin == 0;
  if (MeanErrors* const totals = options_.totals) {
    if (begins) ++totals->compared;
    if (beyond) ++totals->beyond;
    if (error.ulps > totals->worst_ulps) totals->worst_ulps = error.ulps;
  }
  if (EventSink* events = options_.events == nullptr ? nullptr : options_.events->get()) {
    events->counter(fmt::format("error of {} (ulp)", tensor.name), error.ulps);
  }
  if (rank_ != reporter_) return;
  const std::string name(tensor.name);
  Known& known = known_[name];
  if (begins) ++known.checks;
  if (known.worst.element < 0 || error.ulps > known.worst.ulps) known.worst = error;
  if (beyond) {
    warn(name, known, error);
  } else if (begins && known.checks % kBetweenReports == 0) {
    log(LogLevel::kInfo, "RONDE_CHECK_MEAN: \"{}\" is off by {}", name, text_of(error));
  }
}

void MeanCheck::warn(const std::string& name, Known& known, const MeanError& error) {
  std::string text = fmt::format("the result of \"{}\" is wrong by {} (rounding explains {} ulp)",
                                 name, text_of(error), mean_error_bound(size_));
  const std::uint64_t steps = options_.steps ? options_.steps() : 0;
  if (steps > 0) text += fmt::format("; step {}", steps + 1);
  if (EventSink* events = options_.events == nullptr ? nullptr : options_.events->get()) {
    events->instant(kMarksTrack, text);
  }
  if (known.warned && now() - *known.warned < kBetweenMeanWarnings) return;
  known.warned = now();
  log(LogLevel::kWarning, "{}", text);
}

}  // namespace ronde
