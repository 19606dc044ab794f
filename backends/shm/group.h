// A group of ranks on one host that share memory: runs every collective in it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "backends/shm/collectives/direct.h"
#include "backends/shm/collectives/stream.h"
#include "backends/shm/memory/memory.h"
#include "backends/shm/memory/steps.h"
#include "backends/shm/memory/write_permission.h"
#include "backends/shm/transport/transport.h"
#include "core/ports/backend.h"
#include "core/ports/communicator.h"
#include "core/ports/reduce_kernels.h"

namespace ronde::shm {

/// The communicator of one rank. Threads: one at a time.
class ShmGroup final : public Communicator {
 public:
  /// `memory` is laid out for `group`; `arena` may be null.
  ShmGroup(Mapping memory, const GroupSpec& group, SpinLimit spin, Reach reach,
           std::shared_ptr<Arena> arena, std::shared_ptr<const ReduceKernels> kernels);

  Status run(const Work& work, DeviceStream stream, const AbortToken& abort) override;
  void abandon(const Status& why) noexcept override { steps_.leave(why); }
  [[nodiscard]] Transport* transport() noexcept override { return &transport_; }
  /// From the arena.
  std::shared_ptr<std::byte> allocate(std::size_t bytes, DeviceStream stream) override;

 private:
  const Mapping memory_;
  const Reach reach_;
  const std::shared_ptr<Arena> arena_;
  const std::shared_ptr<const ReduceKernels> kernels_;
  const std::shared_ptr<AbortToken> group_abort_;
  Steps steps_;
  WritePermission permission_;
  std::optional<SlotChecks> checks_;  ///< With checksums alone.
  ShmTransport transport_;
  Scratch scratch_;
  Status broken_;
};

}  // namespace ronde::shm
