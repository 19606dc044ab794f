// Runs agreed bundles. The engine decides the order. The executor (ops/) chooses how each one runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/abort.h"
#include "core/base/collective.h"
#include "core/base/dtype.h"
#include "core/base/status.h"
#include "core/ports/event_sink.h"
#include "core/ports/value_watch.h"

namespace ronde {

class DeviceEvent;

/// A bundle's place in the one order in which a job launches its work in device memory. Threads:
/// any.
class LaunchTurn {
 public:
  virtual ~LaunchTurn() = default;
  /// Blocks until all earlier work of this process has been launched. False if there will be no
  /// turn: a rank has left, and no order is agreed any more. The answer is the same on all ranks of
  /// the group. Errors: the abort's status.
  virtual Result<bool> wait(const AbortToken& abort) = 0;
};

/// Gives memory for output number `index` of an operation, whose size is known only when it runs.
/// Called in the executing thread; the memory must be of `shape` and the operation's dtype.
using OutputAllocator = std::function<Result<void*>(std::size_t index, const Shape& shape)>;

struct BundleTensor;

/// The first value of an operation that is not finite, the same on all ranks.
struct NonfiniteFinding {
  std::size_t tensor = 0;  ///< Of the operation.
  OddValue odd;  ///< An input; or a result, with a negative rank: all inputs were finite there.
  bool reports = false;  ///< This rank is the first of those that have the operation.

  [[nodiscard]] bool exists() const noexcept { return odd.exists(); }
  /// Takes what a tensor or piece has, if that comes first.
  void keep_first(const BundleTensor& of, OddValue found, bool is_first_rank) noexcept;
};

/// One tensor of a bundle as this rank holds it. A rank that has joined has `in` and `out` null and
/// no allocator: it takes part with zeros and keeps nothing.
struct BundleTensor {
  std::string_view name;   ///< Of the operation, as the user has given it.
  std::string_view track;  ///< In the timeline, where one is written; else empty.
  const void* in = nullptr;
  void* out = nullptr;  ///< Null where `allocate` gives it.
  Shape shape;  ///< Of `in` (allgather: this rank's; broadcast: the root's; scatter: `out`'s).
  std::span<const std::int64_t> splits;              ///< See Submission::splits.
  std::vector<std::int64_t>* recv_splits = nullptr;  ///< See Operation::recv_splits(); or null.
  const OutputAllocator* allocate = nullptr;
  std::size_t index = 0;   ///< Passed to `allocate`.
  std::int64_t begin = 0;  ///< The first element in the operation's tensor, where it is a piece.
  NonfiniteFinding* finding = nullptr;  ///< Gets what is not finite; null: nobody asks.
  bool checks_mean = false;  ///< Its sum is compared with float64, the same on all ranks.
  double weight = 1.0;       ///< Of a weighted bundle: this rank's share of the sum of weights.
  /// In device memory only. `ready`: the point after which `in` may be read and `out` written
  /// (null: now). `complete` gets the point after which the result is there.
  const DeviceEvent* ready = nullptr;
  std::shared_ptr<DeviceEvent>* complete = nullptr;
};

inline void NonfiniteFinding::keep_first(const BundleTensor& of, OddValue found,
                                         bool is_first_rank) noexcept {
  if (!found.exists() || (exists() && of.index > tensor)) return;
  found.element += of.begin;
  if (of.index < tensor || !exists()) odd = {};
  // An input is the cause of odd results of its tensor.
  if (odd.exists() && (odd.rank < 0) != (found.rank < 0)) {
    if (odd.rank < 0) odd = found;
  } else {
    odd.keep_first(found);
  }
  tensor = of.index;
  reports = is_first_rank;
}

/// Bits of the count of a set's bundles in Bundle::id. The set's id is above them. JSON is exact to
/// 53 bits.
inline constexpr int kBundleBits = 40;

/// Agreed operations that are moved as one: all of one kind, dtype, op, root and scale.
struct Bundle {
  std::uint64_t id = 0;  ///< For the timeline: the same on all ranks; 0 where there is no set.
  Collective kind = Collective::kBarrier;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;  ///< Rank in the group.
  double prescale = 1.0;
  double postscale = 1.0;
  bool weighted = false;  ///< kAverage: the sum of all ranks' inputs times BundleTensor::weight.
  Device device;
  int partition = 0;  ///< From 1 where it is one of several that were one bundle; for the timeline.
  std::vector<BundleTensor> tensors;
  std::string compression;        ///< As agreed, see ops/compression/spec.h; empty means none.
  std::vector<std::string> keys;  ///< With compression: what each tensor's residual is kept by;
                                  ///< empty for tensors without a name.
  /// Not empty: the result of its one tensor, which came with the agreement. Nothing else moves.
  std::vector<std::byte> result;
  /// In device memory: null where no other group has the device. Over with the execution.
  std::shared_ptr<LaunchTurn> turn;
};

/// Bytes this rank puts into the bundle, or by one tensor of it.
inline std::size_t input_bytes(const BundleTensor& tensor, DType dtype) noexcept {
  return static_cast<std::size_t>(element_count(tensor.shape)) * size_of(dtype);
}
inline std::size_t input_bytes(const Bundle& bundle) noexcept {
  std::size_t sum = 0;
  for (const BundleTensor& tensor : bundle.tensors) sum += input_bytes(tensor, bundle.dtype);
  return sum;
}

/// Bytes of the bundle that ranks agree on; 0 where its kind has uneven sizes.
inline std::size_t agreed_bytes(const Bundle& bundle) noexcept {
  return traits_of(bundle.kind).shape == ShapeOf::kTensor ? input_bytes(bundle) : 0;
}

/// Executes the bundles of one group (process set). Threads: one at a time.
class Executor {
 public:
  virtual ~Executor() = default;
  /// Runs one bundle to its end. Blocks. All ranks of the group call it with the same bundles in
  /// the same order. Sum of sizes, output allocation, algorithm choice, staging happen in here.
  /// Tensors in device memory: it returns once their work is queued, see BundleTensor::complete.
  /// Errors: as Communicator::run; kInvalidArgument and kMismatch where uneven sizes do not fit,
  /// the same on all ranks and with the group still usable.
  virtual Status execute(const Bundle& bundle, const AbortToken& abort) = 0;
  /// As CommunicatorTraits::polls.
  [[nodiscard]] virtual bool polls() const noexcept { return true; }

  // These describe the last bundle to people. Threads: as execute.

  /// The path: "shm", "ring over tcp", "local" (one rank), empty at first.
  [[nodiscard]] virtual std::string last_path() const { return {}; }
  /// Bytes and times of compression; zeros if dense.
  [[nodiscard]] virtual CompressionFacts last_compression() const { return {}; }
  /// Measurements and choices of `auto`, in lines; empty before the first.
  [[nodiscard]] virtual std::vector<std::string> explain_compression() const { return {}; }
};

}  // namespace ronde
