// The residuals of tensors in device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/abort.h"
#include "core/ports/communicator.h"
#include "core/ports/device_codecs.h"
#include "ops/compression/compressed_work.h"
#include "ops/memory/memory.h"

namespace ronde {

/// How one bundle's compressed work is queued.
struct DeviceLaunchContext {
  DeviceStream stream = nullptr;
  const AbortToken& abort;
  std::string_view carrier = {};  ///< Names the phase in which frames or lists travel.
};

/// Calls for a bundle: find(), place(), commit(). Threads: one at a time.
class DeviceResiduals {
 public:
  explicit DeviceResiduals(std::shared_ptr<DeviceOps> device);

  /// Moves the residuals of these tensors to the device, and forgets the bundle before. A residual
  /// in bf16, for want of room, stays: its tensor is compressed without. Blocks where there is
  /// anything to copy. Throws std::bad_alloc. Errors: the device's.
  Status find(std::span<const CompressedTensor> tensors, const DeviceLaunchContext& context);
  /// True if any tensor has a residual.
  [[nodiscard]] bool keeps() const noexcept { return keeps_; }
  /// A tensor's; null without.
  [[nodiscard]] float* of(std::size_t tensor) const { return residuals_[tensor]; }
  /// Bytes of all flags; none where nothing is kept.
  [[nodiscard]] std::size_t flag_bytes() const noexcept;
  /// Sets the memory for the losses of all elements, and for the flags, which become zero.
  Status place(float* left, std::byte* flags, const DeviceLaunchContext& context);
  /// Becomes 1 where a tensor's result is not finite; null where it keeps nothing.
  [[nodiscard]] std::uint32_t* flag(std::size_t tensor) const {
    return of(tensor) == nullptr ? nullptr : flags_ + tensor;
  }
  /// Queues copies of the losses to the residuals, except of tensors whose flag is set or that have
  /// no result here.
  Status commit(const Work& work, const DeviceLaunchContext& context);
  /// The losses of each tensor of the last work; null if it keeps no residual. In device memory, in
  /// the order of that work's stream, until the next find().
  [[nodiscard]] std::vector<const float*> left_over(const Work& work) const;

 private:
  Result<float*> bring(Residual& residual, const DeviceLaunchContext& context);

  const std::shared_ptr<DeviceOps> device_;
  DeviceCopyEngine copies_;
  std::vector<float*> residuals_;   // by tensor; null without
  bool keeps_ = false;              // any of them
  float* left_ = nullptr;           // of all elements
  std::uint32_t* flags_ = nullptr;  // by tensor
  std::vector<CommitRun> runs_;     // kept
};

}  // namespace ronde
