#include "ops/device/device_residuals.h"

#include <utility>

namespace ronde {

DeviceResiduals::DeviceResiduals(std::shared_ptr<DeviceOps> device)
    : device_(std::move(device)), copies_(device_, nullptr) {}

Status DeviceResiduals::find(std::span<const CompressedTensor> tensors,
                             const DeviceLaunchContext& context) {
  residuals_.clear();
  keeps_ = false;
  left_ = nullptr;
  for (const CompressedTensor& tensor : tensors) {
    float* values = nullptr;
    if (tensor.residual) {
      RONDE_ASSIGN_OR_RETURN(values, bring(*tensor.residual, context));
    }
    residuals_.push_back(values);
    keeps_ = keeps_ || values != nullptr;
  }
  return {};
}

Result<float*> DeviceResiduals::bring(Residual& residual, const DeviceLaunchContext& context) {
  if (residual.format() != ResidualFormat::kFp32 || residual.count() == 0) return nullptr;
  if (float* const there = residual.on_device(*device_, context.stream)) return there;
  DeviceHome home{device_, context.stream, copies_.allocate(residual.bytes())};
  RONDE_RETURN_IF_ERROR(residual.move_to(std::move(home), context.abort));
  return residual.on_device(*device_, context.stream);
}

std::size_t DeviceResiduals::flag_bytes() const noexcept {
  return keeps_ ? residuals_.size() * sizeof(std::uint32_t) : 0;
}

Status DeviceResiduals::place(float* left, std::byte* flags, const DeviceLaunchContext& context) {
  left_ = left;
  flags_ = reinterpret_cast<std::uint32_t*>(flags);
  copies_.copy(flags, nullptr, flag_bytes());
  return copies_.flush(context.stream);
}

Status DeviceResiduals::commit(const Work& work, const DeviceLaunchContext& context) {
  const std::vector<const float*> left = left_over(work);
  for (std::size_t i = 0; i < work.segments.size(); ++i) {
    const Segment& segment = work.segments[i];
    if (left[i] == nullptr || segment.out == nullptr) continue;
    const std::size_t count = segment.bytes / size_of(work.reduction.dtype);
    runs_.push_back({left[i], residuals_[i], flags_ + i, count});
  }
  const Status status = device_->codecs()->commit(runs_, context.stream);
  runs_.clear();
  return status;
}

std::vector<const float*> DeviceResiduals::left_over(const Work& work) const {
  std::vector<const float*> all;
  const float* at = left_;
  for (std::size_t i = 0; i < work.segments.size(); ++i) {
    all.push_back(residuals_[i] == nullptr ? nullptr : at);
    if (at != nullptr) at += work.segments[i].bytes / size_of(work.reduction.dtype);
  }
  return all;
}

}  // namespace ronde
