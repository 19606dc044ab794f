// Communicators whose collectives are compressed, by a codec and residuals that are bound before
// each bundle.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "core/ports/communicator.h"
#include "core/ports/transport.h"
#include "ops/compression/compressed_work.h"
#include "ops/transfer.h"

namespace ronde {

/// The bound bundle of a communicator that compresses. Threads: one at a time.
class CompressedCommunicator : public Communicator {
 public:
  /// Compresses by `work` until the next call; null: not at all. The losses of run() stay
  /// valid until then.
  void bind(CompressedWork* work) noexcept {
    bound_ = work;
    runs_ = 0;
  }

 protected:
  using Communicator::Communicator;
  [[nodiscard]] bool is_bound() const noexcept { return bound_ != nullptr; }
  [[nodiscard]] CompressedWork& bound() const noexcept { return *bound_; }
  /// The number of the run that begins, from 0, since the last bind().
  std::size_t begin_run() noexcept { return runs_++; }

 private:
  CompressedWork* bound_ = nullptr;
  std::size_t runs_ = 0;
};

/// Binds until it is destroyed.
class Binding {
 public:
  Binding(CompressedCommunicator& communicator, CompressedWork& work) noexcept
      : communicator_(&communicator) {
    communicator.bind(&work);
  }
  ~Binding() {
    if (communicator_ != nullptr) communicator_->bind(nullptr);
  }
  Binding(Binding&& other) noexcept : communicator_(std::exchange(other.communicator_, nullptr)) {}
  Binding& operator=(Binding&&) = delete;

 private:
  CompressedCommunicator* communicator_;
};

/// Allreduce, reduce_scatter and allgather of host memory, by the CPU's codecs over point-to-point:
/// a group's, or that of one rank of each host. A run may be a part of the bundle: Work::origins
/// says which.
class TransportCompressed final : public CompressedCommunicator {
 public:
  /// `transport` outlives it.
  TransportCompressed(std::string name, Transport& transport,
                      std::shared_ptr<const ReduceKernels> kernels);

  /// Errors: as Communicator::run; kAborted where memory runs out.
  Status run(const Work& work, DeviceStream stream, const AbortToken& abort) override;
  [[nodiscard]] Transport* transport() noexcept override { return &transport_; }

 private:
  Status move(const Work& work, const AbortToken& abort);
  Status reduce_scatter(const Work& work, const AbortToken& abort);
  Status allgather(const Work& work, const AbortToken& abort);

  Transport& transport_;
  const std::shared_ptr<const ReduceKernels> kernels_;
  Scratch scratch_;
  Scratch aside_;
  std::deque<Scratch> left_;  // of each run: values stay until they are committed
};

}  // namespace ronde
