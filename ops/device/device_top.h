// Compressed allreduces by top-k of tensors in device memory: the device adds what was left over,
// chooses, and puts the sums in their places; only lists of chosen elements pass through the host,
// which exchanges them as it does those of tensors in its own memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/ports/transport.h"
#include "ops/communicator/compressed.h"
#include "ops/compression/sparse/allreduce.h"
#include "ops/device/device_residuals.h"
#include "ops/device/growing_memory.h"

namespace ronde {

/// For one group. Whether a rank chooses here or on its host is the same to the others: the bytes
/// on the wire, the results and the residuals are those of sparse_allreduce().
/// Threads: one at a time.
class DeviceTopK final : public CompressedCommunicator {
 public:
  /// `residuals` outlives it, as what `end_part` is called on does: it is told that a part of the
  /// work was queued.
  DeviceTopK(std::shared_ptr<DeviceOps> device, DeviceResiduals& residuals,
             std::function<void(std::string_view part)> end_part);

  /// Whether the device has kernels for it; the same on all ranks.
  [[nodiscard]] bool supports(const CompressionSpec& spec) const;
  /// Whether the lists of work that is supported are shorter than its tensors, and all residuals
  /// can be on the device. Each rank asks for itself.
  [[nodiscard]] bool suits(const Work& work, const CompressedWork& compression) const;

  /// Says what carries the lists of the next runs, and what that part of the work is called.
  void travel_over(Transport& carrier, std::string name) {
    carrier_ = &carrier;
    carrier_name_ = std::move(name);
  }
  /// Does work of a bound scheme that is supported. Blocks until all ranks' lists are here, and
  /// queues the rest. Throws std::bad_alloc where there is no memory at all. Errors: the
  /// transport's, the abort's status, the device's; kInvalidArgument naming a rank whose bytes are
  /// no lists.
  Status run(const Work& work, DeviceStream stream, const AbortToken& abort) override;

 private:
  /// A tensor that is not empty.
  struct Vector {
    CompressedPiece piece;
    SparseShare share;
    std::size_t most = 0;   ///< Chosen of it.
    std::size_t begin = 0;  ///< Of its list.
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
  void list_vectors(const Work& work);
  Status choose(const Work& work, const DeviceLaunchContext& context);
  Status select(const Work& work, std::byte* scratch, const DeviceLaunchContext& context);
  [[nodiscard]] std::size_t scratch_of(const Vector& vector) const;
  Status exchange(Transport& transport, const AbortToken& abort);
  void take(std::vector<Arrived>& to, std::size_t vector, const SparseVector& elements);
  Status bring_up(const DeviceLaunchContext& context);
  Status add_kept(const DeviceLaunchContext& context);
  Status write_sums(const Work& work, const DeviceLaunchContext& context);
  [[nodiscard]] ScatterRun run_of(const Arrived& arrived) const;

  const std::shared_ptr<DeviceOps> device_;
  DeviceResiduals& residuals_;
  const std::function<void(std::string_view part)> end_part_;
  Transport* carrier_ = nullptr;
  std::string carrier_name_;
  DeviceCopyEngine copies_;
  GrowingMemory memory_;
  GrowingMemory memory_up_;
  HostMemory host_down_;
  HostMemory host_up_;
  // Of the work at hand.
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
