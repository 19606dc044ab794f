// Compressed allreduces by top-k of tensors in device memory: the device adds residuals, selects
// elements and writes the sums. Only lists of selected elements pass through the host, which
// exchanges them as those of tensors in host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "core/ports/transport.h"
#include "ops/compression/compressed_allreduce.h"
#include "ops/compression/sparse/codecs.h"
#include "ops/device/device_residuals.h"
#include "ops/memory/memory.h"

namespace ronde {

/// For one group. Bytes on the wire, results and residuals are those of sparse_allreduce(),
/// so that other ranks may select on their hosts.
/// Threads: one at a time.
class DeviceTopK {
 public:
  /// `residuals` outlives it. `end_phase` is called when a phase of the work has been queued.
  DeviceTopK(std::shared_ptr<DeviceOps> device, DeviceResiduals& residuals,
             std::function<void(std::string_view phase)> end_phase);

  /// True if the device has kernels for it; the same on all ranks.
  [[nodiscard]] bool supports(const CompressionSpec& spec) const;
  /// True if the lists of supported work are shorter than its tensors, and all residuals can be on
  /// the device. Ranks may differ.
  [[nodiscard]] bool suits(const Work& work, const CompressedWork& compression) const;

  /// Does work of a scheme that is supported; lists travel by `carrier`. Blocks until all ranks'
  /// lists are here, and queues the rest. Throws std::bad_alloc where there is no memory at all.
  /// Errors: the transport's, the abort's status, the device's; kInvalidArgument naming a rank
  /// whose bytes are no lists.
  Status run(const Work& work, CompressedWork& compression, Transport& carrier,
             const DeviceLaunchContext& context);

 private:
  /// A tensor that is not empty.
  struct Vector {
    CompressedPiece piece;
    SparseShare share;
    std::size_t most = 0;   ///< Chosen of it.
    std::size_t begin = 0;  ///< Offset of its list.
    float* left = nullptr;
  };
  /// The lists of all tensors, in one block: how long each is, then indices, then values.
  struct Lists {
    Lists() = default;
    Lists(std::byte* memory, std::size_t vectors, std::size_t elements);
    std::uint32_t* found = nullptr;
    std::uint32_t* indices = nullptr;
    float* values = nullptr;
  };
  /// Elements of the lists that go up, and which vector they are for.
  struct Arrived {
    std::size_t vector = 0;
    std::size_t begin = 0;
    std::size_t count = 0;
  };
  void list_vectors(const Work& work, const CompressedWork& compression);
  Status choose(const Work& work, const DeviceLaunchContext& context);
  Status select(const Work& work, std::byte* scratch, const DeviceLaunchContext& context);
  [[nodiscard]] std::size_t scratch_of(const Vector& vector) const;
  Status exchange(Transport& transport, CompressedWork& compression, const AbortToken& abort);
  void take(std::vector<Arrived>& to, std::size_t vector, const SparseVector& elements);
  Status bring_up(const DeviceLaunchContext& context);
  Status add_kept(const DeviceLaunchContext& context);
  Status write_sums(const Work& work, const DeviceLaunchContext& context);
  [[nodiscard]] ScatterRun run_of(const Arrived& arrived) const;

  const std::shared_ptr<DeviceOps> device_;
  DeviceResiduals& residuals_;
  const std::function<void(std::string_view phase)> end_phase_;
  DeviceCopyEngine copies_;
  GrowingMemory memory_;
  GrowingMemory memory_up_;
  HostMemory host_down_;
  HostMemory host_up_;
  // State of the current work.
  std::vector<Vector> vectors_;
  std::size_t elements_ = 0;            // of all of their lists
  Lists chosen_;                        // on the host
  Lists brought_;                       // on the device
  std::vector<std::uint32_t> indices_;  // of what goes up
  std::vector<float> values_;
  std::vector<Arrived> kept_, sums_;
  std::vector<ScatterRun> runs_;  // kept
};

}  // namespace ronde
