// Compressed allreduces of tensors in device memory: what quantised_allreduce.h does, with values,
// frames and residuals on the device and the same bits on the wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/ports/device_codecs.h"
#include "core/ports/device_plane.h"
#include "ops/compression/partition.h"
#include "ops/flat_mover.h"

namespace ronde {

/// What the frames of one bundle travel over.
struct FrameRoad {
  DeviceGroup& group;
  DeviceStream stream = nullptr;
  const AbortToken& abort;
  std::function<void(std::string_view part)> end_part;  ///< A part of the work was queued.
  std::string_view name;                                ///< Of the part that the group does.
};

/// For one group. The frames for the other ranks are made by one launch, travel, are added to this
/// rank's own part and encoded once more by a second launch, travel, and are decoded by a third;
/// what is left over becomes the residual by a fourth, but for tensors whose result is not finite.
/// Nothing waits for the device.
/// Threads: one at a time.
class DeviceCompression {
 public:
  DeviceCompression(std::shared_ptr<DeviceOps> device, int rank, int size);

  /// Whether the device has kernels for it; the same on all ranks.
  [[nodiscard]] bool supports(const CompressionSpec& spec) const;

  /// Queues work of a scheme that is supported. Throws std::bad_alloc where there is no memory at
  /// all. Errors: as DeviceGroup::launch.
  Status run(const Work& work, const FrameRoad& road);

  /// What the last run(), which was of this work, left over of each tensor; null where nothing is
  /// kept. In device memory, in the order of that run's stream, until the next run.
  [[nodiscard]] std::vector<const float*> left_over(const Work& work) const;

 private:
  /// One bundle under way.
  struct Bundled {
    const Work& work;
    const FrameRoad& road;
    FrameCode code;
    std::vector<CompressedPiece> pieces;
    std::vector<Slice> slices = {};
    // Memory of the slice under way.
    std::byte* sent = nullptr;
    std::byte* received = nullptr;
    std::byte* gathered = nullptr;
    std::uint32_t* flags = nullptr;  // by tensor, of the whole bundle
  };
  Status find_residuals(const Bundled& bundle);
  Result<float*> bring_residual(Residual& residual, const FrameRoad& road);
  Status lay_out(Bundled& bundle);
  void add_encode_runs(const Bundled& bundle, const Slice& slice, std::size_t owner,
                       std::byte* frame, const std::byte* added);
  Status encode(const Bundled& bundle, std::size_t added_frames, std::size_t added_stride);
  Status send_parts(const Bundled& bundle, const Slice& slice);
  Status send_sums(const Bundled& bundle, const Slice& slice);
  Status decode(const Bundled& bundle, const Slice& slice);
  Status commit(const Bundled& bundle);
  [[nodiscard]] std::size_t sent_bytes(const Slice& slice) const;

  const std::shared_ptr<DeviceOps> device_;
  DeviceMover mover_;
  const std::size_t me_;
  const std::size_t ranks_;
  std::shared_ptr<std::byte> memory_;  // grows to the largest bundle seen
  std::size_t bytes_ = 0;
  // Of the last bundle.
  std::vector<float*> residuals_;                     // by tensor; null without
  bool keeps_ = false;                                // any of them
  float* left_ = nullptr;                             // of all elements; null where nothing is kept
  std::vector<EncodeRun> encode_runs_;                // kept
  std::vector<DecodeRun> decode_runs_;                // kept
  std::vector<CommitRun> commit_runs_;                // kept
  std::vector<std::size_t> send_bytes_, recv_bytes_;  // kept
};

}  // namespace ronde
