// A communicator of two levels for host memory: one inside each host, and one between hosts.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/ports/communicator.h"
#include "ops/communicator/algorithm.h"
#include "ops/communicator/compressed.h"
#include "ops/hierarchical/host_layout.h"
#include "ops/hierarchical/levels.h"

namespace ronde {

/// True for collectives that use two levels. A reduce_scatter in deterministic mode does not: its
/// bits must not depend on the placement of ranks.
bool goes_in_levels(Collective kind, bool deterministic) noexcept;

/// The communicators of a group for host memory.
struct HostParts {
  std::unique_ptr<Communicator> whole = nullptr;   ///< Among all ranks; null only if size is 1.
  std::unique_ptr<Communicator> inside = nullptr;  ///< Among this host's ranks; null if it has one.
  HostLayout layout = {};  ///< Two levels where it has several hosts with several ranks.
};

/// While one slice is between hosts, the next is reduced inside them. Dense allreduces may use
/// shorter slices.
inline constexpr std::size_t kHostSliceBytes = std::size_t{8} << 20;

/// The levels of one rank, which its dense and its compressed communicator share: one runs at a
/// time.
class Hierarchy {
 public:
  /// `parts.whole` has a transport. `options` are those of the whole group; its algorithm does not
  /// count.
  Hierarchy(HostParts parts, const AlgorithmOptions& options,
            std::size_t slice_bytes = kHostSliceBytes);

  /// "tcp, shm inside hosts".
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] Levels levels() noexcept;
  [[nodiscard]] Communicator& outer() noexcept { return *outer_; }
  /// The ranks with this local rank, one of each host.
  [[nodiscard]] Transport& peers() noexcept { return peers_; }
  [[nodiscard]] bool deterministic() const noexcept { return options_.deterministic; }
  [[nodiscard]] bool polls() const noexcept;
  /// Moves the chunks of dense allreduces between hosts, by the rows of the selection table.
  [[nodiscard]] std::unique_ptr<Communicator> dense_between();

 private:
  const HostLayout layout_;
  const AlgorithmOptions options_;  // but for rank and size
  const std::size_t slice_bytes_;
  const std::unique_ptr<Communicator> outer_;
  AlgorithmCommunicator inner_;
  const std::string name_;
  SubTransport peers_;
  Scratch scratch_;       // of the calling thread
  Scratch wire_scratch_;  // of the wire thread
  WireThread wire_;       // last: it uses the rest
};

/// It does allreduce, broadcast, allgather and (outside of deterministic mode) reduce_scatter by
/// itself. Everything else runs over the outer communicator's
/// transport. Over a lossy `between` it does what may be compressed, between hosts only. Threads:
/// one at a time.
class HierarchicalCommunicator final : public Communicator {
 public:
  /// `between`: among the peers.
  HierarchicalCommunicator(std::shared_ptr<Hierarchy> hierarchy,
                           std::unique_ptr<Communicator> between);

  Status run(const Work& work, DeviceStream stream, const AbortToken& abort) override;
  [[nodiscard]] Transport* transport() noexcept override { return hierarchy_->outer().transport(); }
  std::shared_ptr<std::byte> allocate(std::size_t bytes, DeviceStream stream) override {
    return hierarchy_->outer().allocate(bytes, stream);
  }

 private:
  Status run_in_levels(const Work& work, const AbortToken& abort);

  const std::shared_ptr<Hierarchy> hierarchy_;
  const std::unique_ptr<Communicator> between_;
};

}  // namespace ronde
