// The device of a group, with its communicators and the order of launches, and the communicators
// that stand on others.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/ports/communicator.h"
#include "core/ports/device_ops.h"
#include "ops/hierarchical/host_layout.h"

namespace ronde {

class AlgorithmCommunicator;

/// Orders the launches of several groups on one device. Each group has a stream of its own, and a
/// kernel that waits for other ranks may hold what theirs need. Threads: any.
class LaunchChain {
 public:
  /// Makes the stream's later work follow all launches so far.
  Status join(DeviceOps& device, DeviceStream stream) RONDE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (!last_ || stream_ == stream) return {};
    return device.wait(stream, *last_);
  }
  /// `done` is the point in `stream` after the last launch.
  void extend(DeviceStream stream, DeviceEventPtr done) RONDE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    stream_ = stream;
    last_ = std::move(done);
  }

 private:
  Mutex mutex_;
  DeviceStream stream_ RONDE_GUARDED_BY(mutex_) = nullptr;
  DeviceEventPtr last_ RONDE_GUARDED_BY(mutex_);
};

/// A device, and the communicators that were opened on it.
struct DeviceParts {
  std::shared_ptr<DeviceOps> device;
  std::unique_ptr<Communicator> whole;  ///< Among all ranks; null: work is staged.
  std::shared_ptr<LaunchChain> chain =
      nullptr;  ///< Shared by the groups on the device; null: one group.
  /// Among this host's ranks, for allreduces in two levels. Null: one level.
  std::unique_ptr<Communicator> inside = nullptr;
  HostLayout layout = {};  ///< Set if `inside` is.
};

/// Opens them for this rank's device `index`: collective over the group, at its first work in
/// device memory. Errors: kUnsupported, the same on all ranks.
using DeviceOpener = std::function<Result<DeviceParts>(int index)>;

/// An allreduce moves in slices of about this many bytes: while one is between hosts, the next is
/// reduced inside them and the one before is gathered.
inline constexpr std::size_t kDeviceSliceBytes = std::size_t{4} << 20;

/// A communicator of two levels for device memory, of parts that have `inside`. An allreduce is
/// reduced and scattered inside each host; the i-th rank of every host carries the i-th chunk
/// between hosts, in pinned memory over `host`'s transport; then it is gathered inside. Hosts may
/// have unlike numbers of ranks: there are as many chunks as the smallest has. Everything else is
/// that of `whole`, where there is one. 16-bit types are rounded by `inside` and once more between
/// hosts. run() of an allreduce blocks until the hosts have exchanged all slices, and queues the
/// last gathering. Per host 2(m-1)/m of the bytes leave and as many come, for m hosts. Source: as
/// ops/hierarchical/levels.h. `host` outlives it and has a transport.
std::unique_ptr<Communicator> create_device_hierarchical(
    DeviceParts parts, AlgorithmCommunicator& host, std::size_t slice_bytes = kDeviceSliceBytes);

/// Element-wise collectives move in pieces of this many bytes.
inline constexpr std::size_t kStagedPieceBytes = std::size_t{4} << 20;

/// A communicator for device memory that stands on `host`, which outlives it. Supports everything;
/// run() blocks until the host's collective is done, and queues the last copies.
Result<std::unique_ptr<Communicator>> create_staged(std::shared_ptr<DeviceOps> device,
                                                    Communicator& host, int rank, int size);

}  // namespace ronde
