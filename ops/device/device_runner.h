// Runs agreed work on tensors in device memory: in stream order, fused on the device, by the path
// that the selector chooses.
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
#include "ops/device/copy_engine.h"
#include "ops/device/device_compression.h"
#include "ops/device/device_parts.h"
#include "ops/device/device_times.h"
#include "ops/device/device_top.h"
#include "ops/device/growing_memory.h"
#include "ops/execution/fusion_buffer.h"
#include "ops/selection/path.h"

namespace ronde {

/// Threads: one at a time.
class DeviceRunner {
 public:
  struct Options {
    DeviceOpener open;  ///< May be empty: kUnsupported.
    int rank = 0;
    int size = 1;
    const EventGate* events = nullptr;  ///< Is told when the device did what; may be null.
    std::string track;                  ///< On which track.
    bool host_levels = false;           ///< The host's communicator has two levels.
  };

  /// `host` runs what is staged, and outlives this, as the events do.
  DeviceRunner(Options options, AlgorithmCommunicator& host);
  /// Tells of what has ended by now.
  ~DeviceRunner();
  DeviceRunner(const DeviceRunner&) = delete;
  DeviceRunner& operator=(const DeviceRunner&) = delete;

  /// Opens the device at first, in the bundle's turn; what is run from now on comes after all that
  /// the tensors wait for.
  Status begin(const Bundle& bundle, const AbortToken& abort);
  /// Chooses the path of dense work of the bundle; the same on all ranks. Work for the device's
  /// communicator waits for the bundle's turn, and is staged where that never comes.
  Status choose(const Bundle& bundle, const Work& work, const AbortToken& abort);
  /// As choose(), for a compressed allreduce. kHostCodecs: the caller brings it to the host. The
  /// same on all ranks, but for top-k, where each decides by what it is to send.
  Result<Path> choose_compressed(const Bundle& bundle, const Work& work,
                                 const CompressedWork& compression, const AbortToken& abort);
  /// Queues one work of the bundle, by the path last chosen; `compression` is null for dense work.
  Status run(const Work& work, CompressedWork* compression, const AbortToken& abort);
  /// Brings the inputs of such segments to the host: the same segments there, in place, valid until
  /// the next call. Blocks until they are there.
  Result<std::span<const Segment>> bring_down(std::span<const Segment> segments,
                                              const AbortToken& abort);
  /// Queues the way back of what the last bring_down() gave, to where `segments` want it.
  Status bring_up(std::span<const Segment> segments);
  /// Brings the results of compressed work that ran last, and what it left over, to the host, and
  /// notes it in `compression`: the segments there, as those of bring_down().
  Result<std::span<const Segment>> bring_losses(const Work& work, CompressedWork& compression,
                                                const AbortToken& abort);
  /// Hands out the point after which the results are there; waits for it where nobody takes it.
  Status end(const Bundle& bundle, const AbortToken& abort);

  /// "nccl", "shm through host memory": what was chosen last.
  [[nodiscard]] const std::string& path() const noexcept { return path_name_; }

 private:
  /// What there is once it has been opened.
  struct Opened {
    Opened(DeviceParts parts, const Options& options, AlgorithmCommunicator& host,
           const std::function<void(std::string_view part)>& end_part);
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
  Status launch_compressed(const Work& work, CompressedWork& compression, const AbortToken& abort);
  Status join_chain();
  [[nodiscard]] Status out_of_memory(std::string_view what, std::size_t bytes) const;

  void end_part(std::string_view part);
  void tell_times();

  const Options options_;
  AlgorithmCommunicator& host_;
  std::unique_ptr<Opened> opened_;
  bool launched_ = false;          // the bundle under way is a link of the chain
  EventSink* listener_ = nullptr;  // of the bundle under way; null: nothing is recorded
  Path path_ = Path::kNone;        // as last chosen
  std::string path_name_;
  HostMemory host_memory_;        // of what is brought down
  std::vector<Segment> on_host_;  // reused
};

}  // namespace ronde
