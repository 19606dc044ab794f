// Communicators whose allreduces are compressed, by a codec and residuals that are bound before
// each bundle.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>

#include "core/ports/communicator.h"
#include "core/ports/transport.h"
#include "ops/compression/compressed_work.h"
#include "ops/scratch.h"

namespace ronde {

/// What all of them share: the bound bundle. Supports allreduce alone. Threads: one at a time.
class CompressedCommunicator : public Communicator {
 public:
  CompressedCommunicator(std::string name, DeviceKind memory);

  /// Compresses by `work` until the next call; null: nothing may be run. What run() leaves over of
  /// it stays valid until then.
  void bind(CompressedWork* work) noexcept {
    bound_ = work;
    runs_ = 0;
  }

 protected:
  [[nodiscard]] CompressedWork& bound() const noexcept { return *bound_; }
  /// The number of the run that begins, from 0, since the last bind().
  std::size_t begin_run() noexcept { return runs_++; }

 private:
  CompressedWork* bound_ = nullptr;
  std::size_t runs_ = 0;
};

/// Binds for as long as it lives.
class Binding {
 public:
  Binding(CompressedCommunicator& communicator, CompressedWork& work) noexcept
      : communicator_(communicator) {
    communicator_.bind(&work);
  }
  ~Binding() { communicator_.bind(nullptr); }
  Binding(const Binding&) = delete;
  Binding& operator=(const Binding&) = delete;

 private:
  CompressedCommunicator& communicator_;
};

/// Host memory, by the CPU's codecs over point-to-point: a group's, or that of one rank of each
/// host. A run may be a part of the bundle: Work::origins says which.
class TransportCompressed final : public CompressedCommunicator {
 public:
  /// `transport` outlives it.
  TransportCompressed(std::string name, Transport& transport,
                      std::shared_ptr<const ReduceKernels> kernels);

  /// Errors: as Communicator::run; kAborted where memory runs out.
  Status run(const Work& work, DeviceStream stream, const AbortToken& abort) override;
  [[nodiscard]] Transport* transport() noexcept override { return &transport_; }

 private:
  Transport& transport_;
  const std::shared_ptr<const ReduceKernels> kernels_;
  Scratch scratch_;
  std::deque<Scratch> left_;  // of each run: values stay until they are committed
};

}  // namespace ronde
