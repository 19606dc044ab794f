// Binds each work of a bundle to the communicator that serves it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/ports/communicator.h"
#include "core/ports/event_sink.h"
#include "core/ports/executor.h"
#include "ops/adasum/communicator.h"
#include "ops/communicator/bundle_tracer.h"
#include "ops/communicator/compressed.h"
#include "ops/communicator/number_exchange.h"
#include "ops/device/communicator.h"
#include "ops/execution/auto_compression.h"
#include "ops/execution/compression_binder.h"
#include "ops/execution/host_communicators.h"
#include "ops/execution/nonfinite_check.h"

namespace ronde {

/// A work, and the communicator that runs it. Valid until the next bind().
struct BoundWork {
  Work work;  ///< In the communicator's memory.
  Communicator* communicator = nullptr;
  std::optional<Route> route = {};  ///< Of dense work of the host.
  DeviceStream stream = kNoStream;
  TracedWork traced = {};
  std::unique_ptr<CompressedWork> compression = nullptr;  ///< Null: dense.
  std::optional<Binding> binding = {};                    ///< Of `compression`.
  /// The tensors in device memory, if `work` is their copy on the host.
  std::span<const Segment> on_device = {};

  /// Bytes and times of compression so far; zeros for dense work.
  [[nodiscard]] CompressionFacts facts() const {
    return compression == nullptr ? CompressionFacts() : compression->facts();
  }
};

/// For one group. Calls for a bundle: begin(), then bind(), run() and finish() for each
/// work, then end().
/// Threads: one at a time.
class WorkBinder {
 public:
  struct Options {
    HostParts host_parts;
    AlgorithmOptions host;
    DeviceOpener open_device;       ///< Empty: tensors in device memory are kUnsupported.
    std::string device_track = {};  ///< As PhaseTracks::device.
    CompressionBinder::Options compression;
    const EventSwitch* events = nullptr;  ///< Outlives the binder; may be null.
  };
  explicit WorkBinder(Options options);

  /// Prepares for a bundle. Blocks until it is its turn if its device must be opened.
  /// Errors: kUnsupported without such a device; the device's.
  Status begin(const Bundle& bundle, const AbortToken& abort);
  /// Multiplies this rank's inputs of a weighted bundle in device memory, as Weighting does in the
  /// host's: the sum of products, valid until the next call. Call after begin().
  /// Errors: kResourceExhausted without memory for the output; the device's.
  Result<Work> multiply_on_device(const Bundle& bundle, Work work);
  /// The communicator for one work, chosen by the table of ops/selection/path.h. Blocks where ranks
  /// agree on it, and until tensors that the CPU compresses are in host memory.
  /// Errors: kUnsupported if nothing serves it; kInvalidArgument for an unknown compression; those
  /// of the exchanges and of the device.
  Result<BoundWork> bind(const Bundle& bundle, const Work& work, const AbortToken& abort);
  /// Runs a bound work. Blocks. Errors: as Communicator::run.
  Status run(const BoundWork& bound, const AbortToken& abort);
  /// Keeps the residuals of compressed work that has run; brings results to the device where the
  /// host computed them. Errors: as bind().
  Status finish(const Bundle& bundle, const BoundWork& bound, const AbortToken& abort);
  /// Hands out the event after which a bundle's results in device memory are complete.
  Status end(const Bundle& bundle, const AbortToken& abort);

  /// The part of the search for values that are not finite that a bound work's path does.
  [[nodiscard]] WatchedPath watched_path(const BoundWork& bound) const;

  /// Runs dense work in host memory.
  [[nodiscard]] AlgorithmCommunicator& host() noexcept { return host_.dense(); }
  /// The exchange of numbers among the ranks.
  [[nodiscard]] NumberExchange& exchange() noexcept { return exchange_; }
  /// As CommunicatorTraits::polls, of host memory.
  [[nodiscard]] bool polls() const noexcept { return host_.dense().traits().polls; }
  /// As Executor has them.
  [[nodiscard]] std::string last_path() const;
  [[nodiscard]] std::vector<std::string> explain_compression() const { return auto_.explain(); }

 private:
  Result<BoundWork> bind_dense(const Bundle& bundle, const Work& work, const AbortToken& abort);
  Result<BoundWork> bind_adasum(const Bundle& bundle, const Work& work, const AbortToken& abort);
  Result<BoundWork> bind_compressed(const Bundle& bundle, const Work& work,
                                    const AbortToken& abort);
  Status serve_compressed(const Bundle& bundle, BoundWork& bound, const AbortToken& abort);
  Status serve_on_host(BoundWork& bound, const AbortToken& abort);
  void serve_on_device(BoundWork& bound);
  Status keep_residuals(const Bundle& bundle, const BoundWork& bound, const AbortToken& abort);
  [[nodiscard]] TracedWork traced(const BoundWork& bound) const;

  const int size_;
  const EventSwitch* const events_;
  HostCommunicators host_;
  DeviceCommunicator device_;
  AdasumCommunicator adasum_;
  NumberExchange exchange_;
  CompressionBinder codecs_;
  AutoCompression auto_;
  std::vector<Segment> products_;
  std::string compression_;  // of the compressed work at hand
  Route last_route_;         // of what ran last on the host
  bool last_on_device_ = false;
};

}  // namespace ronde
