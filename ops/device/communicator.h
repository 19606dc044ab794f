// The communicator of a group for device memory, by the path that the selector chooses.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/ports/communicator.h"
#include "core/ports/event_sink.h"
#include "core/ports/executor.h"
#include "ops/communicator/algorithm.h"
#include "ops/communicator/compressed.h"
#include "ops/device/device_compression.h"
#include "ops/device/device_parts.h"
#include "ops/device/device_times.h"
#include "ops/device/device_top.h"
#include "ops/memory/fusion_buffer.h"
#include "ops/memory/memory.h"
#include "ops/selection/path.h"

namespace ronde {

/// Queues work on a stream of its own: by the device's communicator, by the device's codecs while a
/// bundle is bound, or through the host. Opens the device at the first bundle.
/// Calls for a bundle: begin(), then choose() and run() for each work, then end().
/// Threads: one at a time.
class DeviceCommunicator final : public CompressedCommunicator {
 public:
  struct Options {
    DeviceOpener open;  ///< May be empty: kUnsupported.
    int rank = 0;
    int size = 1;
    const EventSwitch* events = nullptr;  ///< Gets the device's times; may be null.
    std::string track;                    ///< The timeline's track for them.
    bool host_levels = false;             ///< The host's communicator has two levels.
  };

  /// `host` runs what is staged. It outlives this, as the events do.
  DeviceCommunicator(Options options, AlgorithmCommunicator& host);
  /// Reports the times of what has ended.
  ~DeviceCommunicator() override;
  DeviceCommunicator(const DeviceCommunicator&) = delete;
  DeviceCommunicator& operator=(const DeviceCommunicator&) = delete;

  /// Opens the device at first, in the bundle's turn. The stream waits for the tensors' events.
  Status begin(const Bundle& bundle, const AbortToken& abort);
  /// Chooses the path of dense work of the bundle; the same on all ranks. Work for the device's
  /// communicator waits for the bundle's turn, and is staged if there will be no turn.
  Status choose(const Bundle& bundle, const Work& work, const AbortToken& abort);
  /// As choose(), for a compressed allreduce. kHostCodecs: the caller copies it to the host. The
  /// same on all ranks, except top-k: each rank decides by the bytes that it would send.
  Result<Path> choose_compressed(const Bundle& bundle, const Work& work,
                                 const CompressedWork& compression, const AbortToken& abort);
  /// Queues one work of the bundle, by the path last chosen. Unlike Communicator::run it takes any
  /// number of segments.
  Status run(const Work& work, DeviceStream stream, const AbortToken& abort) override;
  /// Queues out = factor * in of one segment, in the type's own precision.
  Status multiply(DType dtype, const Segment& segment, double factor);
  /// HostCopy's functions of these names, on this group's stream.
  Result<std::span<const Segment>> bring_down(std::span<const Segment> segments,
                                              const AbortToken& abort) {
    return host_copy_.bring_down({*opened_->device, opened_->stream}, segments, abort);
  }
  Status bring_up(std::span<const Segment> segments) {
    if (segments.empty()) return {};
    return host_copy_.bring_up({*opened_->device, opened_->stream}, segments);
  }
  /// Copies results and residuals of the compressed work that ran last to the host. Notes the
  /// residuals in `compression`, returns the results as bring_down() does.
  Result<std::span<const Segment>> bring_losses(const Work& work, CompressedWork& compression,
                                                const AbortToken& abort);
  /// Hands out the event after which the results are complete; waits for it if no tensor takes it.
  Status end(const Bundle& bundle, const AbortToken& abort);

  /// The stream of the group's work. Call after begin().
  [[nodiscard]] DeviceStream stream() const noexcept { return opened_->stream; }
  /// The path last chosen: "nccl", "shm through host memory".
  [[nodiscard]] const std::string& path() const noexcept { return path_name_; }

 private:
  /// The state of an opened device.
  struct Opened {
    Opened(DeviceParts parts, const Options& options, AlgorithmCommunicator& host,
           const std::function<void(std::string_view phase)>& end_phase);
    const std::shared_ptr<DeviceOps> device;
    const std::shared_ptr<LaunchChain> chain;
    const std::unique_ptr<Communicator> own;  // of the device; null: everything is staged
    std::unique_ptr<Communicator> staged;
    DeviceStream stream = nullptr;
    DeviceCopyEngine copies;
    FusionBuffer buffer;
    DeviceTimes times;
    DeviceResiduals residuals;
    DeviceCompression compression;
    DeviceTopK top;
  };
  Status open(int index);
  Status choose(Facts facts, const Bundle& bundle, const AbortToken& abort);
  [[nodiscard]] Facts facts_of(Collective kind, DType dtype, ReduceOp op) const;
  [[nodiscard]] bool uses_own() const noexcept {
    return path_ == Path::kNative || path_ == Path::kFrames;
  }
  [[nodiscard]] Communicator& carrier() const noexcept {
    return uses_own() ? *opened_->own : *opened_->staged;
  }
  Status launch(const Work& work, const AbortToken& abort);
  Status launch_compressed(const Work& work, const AbortToken& abort);
  Status join_chain();
  void end_phase(std::string_view phase);
  void report_times();

  const Options options_;
  AlgorithmCommunicator& host_;
  std::unique_ptr<Opened> opened_;
  bool launched_ = false;          // the bundle under way is a link of the chain
  EventSink* listener_ = nullptr;  // of the bundle under way; null: nothing is recorded
  Path path_ = Path::kNone;        // as last chosen
  std::string path_name_;
  HostCopy host_copy_;
};

}  // namespace ronde
