// Runs agreed work on tensors in device memory: in stream order, fused on the device, over a device
// data plane where that can do it and staged through the host elsewhere.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/ports/device_plane.h"
#include "core/ports/event_sink.h"
#include "core/ports/executor.h"
#include "ops/device/copy_engine.h"
#include "ops/device/device_compression.h"
#include "ops/device/device_parts.h"
#include "ops/device/device_times.h"
#include "ops/device/device_top.h"
#include "ops/device/growing_memory.h"
#include "ops/execution/fusion_buffer.h"
#include "ops/execution/work_runner.h"

namespace ronde {

/// Threads: one at a time.
class DeviceRunner {
 public:
  struct Options {
    DeviceOpener open;  ///< May be empty: kUnsupported.
    int rank = 0;
    int size = 1;
    const EventGate* events = nullptr;  ///< Hears when the device did what; may be null.
    std::string lane;                   ///< In which lane.
  };

  /// `host` runs what is staged, and outlives this, as the events do.
  DeviceRunner(Options options, WorkRunner& host);
  /// Tells of what has ended by now.
  ~DeviceRunner();
  DeviceRunner(const DeviceRunner&) = delete;
  DeviceRunner& operator=(const DeviceRunner&) = delete;

  /// Opens the device at first, in the bundle's turn; what is run from now on comes after all that
  /// the tensors wait for.
  Status begin(const Bundle& bundle, const AbortToken& abort);
  /// Decides how such work of the bundle is done; the same on all ranks. path() says it. Work for
  /// the device data plane waits for the bundle's turn, and is staged where that never comes.
  Status choose(const Bundle& bundle, const WorkDesc& desc, const AbortToken& abort);
  /// As choose(), for a compressed allreduce: false where the host's codecs are to do it, as the
  /// device has none for it, or the host's data plane compresses better. The same on all ranks, but
  /// for top-k, where each decides by what it is to send; `bytes` is the same in any case.
  Result<bool> choose_compressed(const Bundle& bundle, const Work& work, std::size_t bytes,
                                 const AbortToken& abort);
  /// Queues one work of the bundle, in the way last chosen.
  Status run(const Work& work, const AbortToken& abort);
  /// Brings the inputs of such segments to the host: the same segments there, in place, valid until
  /// the next call. Blocks until they are there.
  Result<std::span<const Segment>> bring_down(std::span<const Segment> segments,
                                              const AbortToken& abort);
  /// Queues the way back of what the last bring_down() gave, to where `segments` want it.
  Status bring_up(std::span<const Segment> segments);
  /// Brings the results of compressed work that ran last, and what it left over, to the host, and
  /// tells `work.compression` of it: the segments there, as those of bring_down().
  Result<std::span<const Segment>> bring_losses(const Work& work, const AbortToken& abort);
  /// Hands out the point after which the results are there; waits for it where nobody takes it.
  Status end(const Bundle& bundle, const AbortToken& abort);

  /// "nccl", "shm through host memory": what was chosen last.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  /// What there is once it has been opened.
  struct Opened {
    Opened(DeviceParts parts, const Options& options, WorkRunner& host);
    const std::shared_ptr<DeviceOps> device;
    const std::shared_ptr<LaunchChain> chain;
    const std::unique_ptr<DeviceGroup> plane;
    std::unique_ptr<DeviceGroup> staged;
    DeviceStream stream = nullptr;
    DeviceCopyEngine copies;
    FusionBuffer buffer;
    DeviceTimes times;
    DeviceResiduals residuals;
    DeviceCompression compression;
    DeviceTopK top;
  };
  Status open(int index);
  Status launch(const Work& work, const AbortToken& abort);
  Status launch_compressed(const Work& work, const AbortToken& abort);
  Status join_chain();
  [[nodiscard]] Status out_of_memory(std::string_view what, std::size_t bytes) const;

  void end_part(std::string_view part);
  void tell_times();

  const Options options_;
  WorkRunner& host_;
  std::unique_ptr<Opened> opened_;
  DeviceGroup* group_ = nullptr;   // of opened_
  bool launched_ = false;          // the bundle under way is a link of the chain
  EventSink* listener_ = nullptr;  // of the bundle under way; null: nobody hears
  std::string path_;
  HostMemory host_memory_;        // of what is brought down
  std::vector<Segment> on_host_;  // reused
};

}  // namespace ronde
