// Compressed allreduces of tensors in device memory: as quantised_allreduce(), with values,
// frames and residuals on the device and the same bits on the wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "core/ports/communicator.h"
#include "core/ports/device_codecs.h"
#include "ops/compression/codecs/partition.h"
#include "ops/device/device_residuals.h"
#include "ops/memory/memory.h"

namespace ronde {

/// Compresses for one group, by four launches. The first makes the frames for the other ranks. The
/// second adds theirs to this rank's own chunk and encodes it once more. The third decodes the
/// results. The fourth stores the residual, except of tensors whose result is not finite. Nothing
/// waits for the device.
/// Threads: one at a time.
class DeviceCompression {
 public:
  /// `residuals` outlives it. `end_phase` is called when a phase of the work has been queued.
  DeviceCompression(std::shared_ptr<DeviceOps> device, DeviceResiduals& residuals, int rank,
                    int size, std::function<void(std::string_view phase)> end_phase);

  /// True if the device has kernels for it; the same on all ranks.
  [[nodiscard]] bool supports(const CompressionSpec& spec) const;

  /// Queues work of a scheme that is supported; frames travel by `carrier`. Throws std::bad_alloc
  /// where there is no memory at all. Errors: as the carrier's.
  Status run(const Work& work, CompressedWork& compression, Communicator& carrier,
             const DeviceLaunchContext& context);

 private:
  /// The current bundle.
  struct Bundled {
    const Work& work;
    CompressedWork& compression;
    Communicator& carrier;
    const DeviceLaunchContext& context;
    FrameCode code;
    std::vector<CompressedPiece> pieces;
    std::vector<Slice> slices = {};
    // Memory of the current slice.
    std::byte* sent = nullptr;
    std::byte* received = nullptr;
    std::byte* gathered = nullptr;
    float* left = nullptr;  // of all elements of the bundle; null where nothing is kept
  };
  Status lay_out(Bundled& bundle);
  void add_encode_runs(const Bundled& bundle, const Slice& slice, std::size_t owner,
                       std::byte* frame, const std::byte* added);
  Status encode(const Bundled& bundle, std::size_t added_frames, std::size_t added_stride);
  Status send_chunks(const Bundled& bundle, const Slice& slice);
  Status send_sums(const Bundled& bundle, const Slice& slice);
  Status decode(const Bundled& bundle, const Slice& slice);
  [[nodiscard]] std::size_t sent_bytes(const Slice& slice) const;

  const std::shared_ptr<DeviceOps> device_;
  DeviceResiduals& residuals_;
  const std::function<void(std::string_view phase)> end_phase_;
  const std::size_t me_;
  const std::size_t ranks_;
  DeviceCopyEngine copies_;
  GrowingMemory memory_;
  std::vector<EncodeRun> encode_runs_;                // kept
  std::vector<DecodeRun> decode_runs_;                // kept
  std::vector<std::size_t> send_bytes_, recv_bytes_;  // kept
};

}  // namespace ronde
