// Work on the memory of one accelerator, as fusion, staging and completion need it. None of them
// sees CUDA. All work is queued on a stream, and no call waits for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/base/dtype.h"
#include "core/base/status.h"

namespace ronde {

/// An ordered queue of device work, as the accelerator's library names it: a cudaStream_t. Null is
/// that library's default stream.
using DeviceStream = void*;

/// A point in a stream's work. Threads: any.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  /// True if all work before it has ended. Blocks: never.
  /// Errors: kUnavailable naming the call, where the device has failed.
  [[nodiscard]] virtual Result<bool> reached() const = 0;
  /// Nanoseconds from `earlier` to this, by the device's clock. Both are recorded for kTime, on one
  /// device, and reached. Errors: kUnavailable naming the call.
  [[nodiscard]] virtual Result<std::int64_t> ns_since(const DeviceEvent& earlier) const = 0;
};
using DeviceEventPtr = std::shared_ptr<DeviceEvent>;

/// The use of an event: order is cheaper to record than time.
enum class EventUse : std::uint8_t { kOrder, kTime };

/// The memory that allocate() gives.
enum class MemoryKind : std::uint8_t {
  kDevice,  ///< The device's own.
  kPinned,  ///< The host's, locked, so that copies to and from the device run beside other work.
};

/// One contiguous run of elements of a batched copy.
struct DeviceCopy {
  const void* in = nullptr;  ///< Null counts as zeros.
  void* out = nullptr;
  std::size_t count = 0;  ///< In elements.
};

/// A batched copy: every element of every run times `scale`, as another type where the two differ.
/// The arithmetic is that of ReduceKernels: `scale` is Scaling::pre, and types change as by cast().
struct BatchedCopy {
  DType from = DType::kUint8;
  DType to = DType::kUint8;
  double scale = 1.0;
  std::span<const DeviceCopy> copies;  ///< Read during the call only.
};

class DeviceCodecs;

/// One accelerator of this process. Threads: any.
/// Errors of all members: kUnavailable naming the call that failed, and the device.
class DeviceOps {
 public:
  virtual ~DeviceOps() = default;

  /// The ordinal by which frameworks know it.
  [[nodiscard]] virtual int index() const noexcept = 0;

  /// Makes it the calling thread's current device, which libraries on top of it look at.
  virtual Status make_current() = 0;

  /// Memory, not initialised. Giving it back waits until the device no longer uses it.
  /// Errors: kResourceExhausted saying how much was asked for.
  virtual Result<std::shared_ptr<std::byte>> allocate(MemoryKind kind, std::size_t bytes) = 0;

  /// A new stream of the highest priority. It lives as long as this object.
  virtual Result<DeviceStream> open_stream() = 0;

  /// Queues a copy; either side may be the host's. With pageable host memory it may block.
  virtual Status copy(void* to, const void* from, std::size_t bytes, DeviceStream stream) = 0;

  /// Queues a batched copy of any number of runs between memory of this device.
  /// Errors: kUnsupported for a pair of types that no kernel was built for.
  virtual Status transform(const BatchedCopy& work, DeviceStream stream) = 0;

  /// A point after all that `stream` has been given so far.
  virtual Result<DeviceEventPtr> record(DeviceStream stream, EventUse use) = 0;
  Result<DeviceEventPtr> record(DeviceStream stream) { return record(stream, EventUse::kOrder); }

  /// Later work of `stream` runs after `event`, an event of this accelerator's library.
  virtual Status wait(DeviceStream stream, const DeviceEvent& event) = 0;

  /// Its kernels of compression, which live as long as this; null where there are none. The answer
  /// is the same for all devices of one library.
  [[nodiscard]] virtual DeviceCodecs* codecs() noexcept { return nullptr; }
};

/// A library for accelerators, such as CUDA. Threads: any.
class Accelerator {
 public:
  virtual ~Accelerator() = default;
  /// "cuda".
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// How many devices this process can use. Errors: kUnavailable saying why there are none.
  virtual Result<int> count() = 0;
  /// Describes device `index` for people: "NVIDIA H200, 141 GB, sm_90".
  virtual Result<std::string> describe(int index) = 0;
  /// The device `index`. Errors: kInvalidArgument naming the devices that are there.
  virtual Result<std::shared_ptr<DeviceOps>> open(int index) = 0;
};

}  // namespace ronde
