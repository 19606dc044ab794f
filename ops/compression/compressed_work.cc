#include "ops/compression/compressed_work.h"

#include <algorithm>
#include <cmath>

#include "core/base/small_float.h"

namespace ronde {
namespace {

/// True if no exponent has all its bits set. Has no branch, so that compilers vectorise it.
template <typename Bits>
bool exponents_below(Bits infinity, const void* values, std::size_t count) {
  const auto* bits = static_cast<const Bits*>(values);
  unsigned found = 0;
  for (std::size_t i = 0; i < count; ++i) found |= (bits[i] & infinity) == infinity ? 1U : 0U;
  return found == 0;
}

template <typename T, typename Widen>
double root_of_squares(const void* values, std::size_t count, Widen widen) {
  const auto* elements = static_cast<const T*>(values);
  double squares = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(widen(elements[i]));
    squares += value * value;
  }
  return std::sqrt(squares);
}

}  // namespace

double norm_of(DType dtype, const void* values, std::size_t count) noexcept {
  switch (dtype) {
    case DType::kFloat16:
      return root_of_squares<std::uint16_t>(values, count, float16_to_float);
    case DType::kBfloat16:
      return root_of_squares<std::uint16_t>(values, count, bfloat16_to_float);
    case DType::kFloat64:
      return root_of_squares<double>(values, count, [](double value) { return value; });
    default:
      return root_of_squares<float>(values, count, [](float value) { return value; });
  }
}

bool all_finite(DType dtype, const void* values, std::size_t count) noexcept {
  switch (dtype) {
    case DType::kFloat16:
      return exponents_below<std::uint16_t>(0x7c00U, values, count);
    case DType::kBfloat16:
      return exponents_below<std::uint16_t>(0x7f80U, values, count);
    case DType::kFloat64:
      return exponents_below<std::uint64_t>(0x7ff0000000000000ULL, values, count);
    default:
      return exponents_below<std::uint32_t>(0x7f800000U, values, count);
  }
}

double CompressedWork::ratio(const Work& work) const noexcept {
  std::size_t whole = 0;
  std::size_t encoded = 0;
  for (const Segment& segment : work.segments) {
    whole += segment.bytes;
    encoded += codec().encoded_bytes(segment.bytes / size_of(work.reduction.dtype));
  }
  return encoded == 0 ? 1 : static_cast<double>(whole) / static_cast<double>(encoded);
}

std::size_t CompressedWork::kept_floats() const noexcept {
  const auto any = [&](auto CompressedTensor::*member) {
    return std::any_of(tensors_.begin(), tensors_.end(),
                       [&](const CompressedTensor& tensor) { return tensor.*member != nullptr; });
  };
  if (any(&CompressedTensor::momentum)) return 2;
  return any(&CompressedTensor::residual) ? 1 : 0;
}

Status CompressedWork::bring_to_host(const AbortToken& abort) {
  for (const CompressedTensor& tensor : tensors_) {
    if (tensor.residual) RONDE_RETURN_IF_ERROR(tensor.residual->move_to_host(abort));
  }
  return {};
}

void CompressedWork::leave(std::size_t tensor, std::size_t begin, std::span<const float> left) {
  Residual* to = tensors_[tensor].residual.get();
  if (to != nullptr) left_.push_back({tensor, begin, left, to});
}

void CompressedWork::leave_momentum(std::size_t tensor, std::size_t begin,
                                    std::span<const float> momentum) {
  Residual* to = tensors_[tensor].momentum.get();
  if (to != nullptr) left_.push_back({tensor, begin, momentum, to});
}

std::optional<CompressionLoss> CompressedWork::loss(std::size_t tensor, const Work& work) const {
  const Residual* const residual = tensors_[tensor].residual.get();
  const Segment& segment = work.segments[tensor];
  const bool scattered = traits_of(work.kind).has_chunks();
  if (residual == nullptr || segment.out == nullptr || scattered) return std::nullopt;
  const DType dtype = work.reduction.dtype;
  CompressionLoss loss{.result = norm_of(dtype, segment.out, segment.bytes / size_of(dtype))};
  for (const Left& left : left_) {
    if (left.to != residual) continue;
    loss.lost =
        std::hypot(loss.lost, norm_of(DType::kFloat32, left.values.data(), left.values.size()));
  }
  if (!std::isfinite(loss.result) || !std::isfinite(loss.lost)) return std::nullopt;
  return loss;
}

void CompressedWork::commit(const Work& work) {
  if (left_.empty()) return;
  std::vector<bool> finite = finite_;
  finite.resize(tensors_.size());
  for (std::size_t i = 0; i < tensors_.size() && finite_.empty(); ++i) {
    const Segment& segment = work.segments[i];
    finite[i] = tensors_[i].residual != nullptr && segment.out != nullptr &&
                all_finite(work.reduction.dtype, segment.out,
                           segment.bytes / size_of(work.reduction.dtype));
  }
  for (const Left& left : left_) {
    if (finite[left.tensor]) left.to->assign(left.values, left.begin);
  }
  left_.clear();
}

}  // namespace ronde
