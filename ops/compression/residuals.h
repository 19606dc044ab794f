// Error feedback: the part of each tensor that compression has not delivered yet. It is kept by
// tensor, so that fusion may change, and in units of the result, so that factors may change. It
// lies in host memory, or in a device's memory after the device has compressed the tensor. Source:
// Karimireddy et al., "Error Feedback Fixes SignSGD", ICML 2019.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/abort.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/ports/device_ops.h"
#include "ops/compression/spec.h"

namespace ronde {

/// Memory of a device, and the stream that orders its reads and writes.
struct DeviceHome {
  std::shared_ptr<DeviceOps> device;
  DeviceStream stream = nullptr;
  std::shared_ptr<std::byte> memory;
};

/// One tensor's residual on this rank, zero at first. Threads: any.
class Residual {
 public:
  /// Throws std::bad_alloc. Pages that are never written take no memory.
  explicit Residual(std::size_t count, ResidualFormat format = ResidualFormat::kFp32);

  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] ResidualFormat format() const noexcept { return format_; }
  /// Bytes that it takes, in either memory.
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// values[i] += residual[begin + i]. Only in host memory.
  void add_to(std::span<float> values, std::size_t begin) const RONDE_EXCLUDES(mutex_);
  /// residual[begin + i] = values[i]. bf16 rounds by bits that depend on step and element.
  /// Only in host memory.
  void assign(std::span<const float> values, std::size_t begin) RONDE_EXCLUDES(mutex_);
  /// A copy, from either memory. Blocks until a device is done with it. Errors: the device's.
  [[nodiscard]] Result<std::vector<float>> values() const RONDE_EXCLUDES(mutex_);
  /// Its values in the memory of `device`, for work on `stream`; null if they are elsewhere.
  [[nodiscard]] float* on_device(const DeviceOps& device, DeviceStream stream) const
      RONDE_EXCLUDES(mutex_);
  /// Moves it to `home`, which has room for it; fp32 only. Blocks if there are values to copy.
  /// Errors: the device's.
  Status move_to(DeviceHome home, const AbortToken& abort) RONDE_EXCLUDES(mutex_);
  /// Moves it to host memory if it is elsewhere. Blocks until a device is done with it; throws
  /// std::bad_alloc.
  /// Errors: the device's.
  Status move_to_host(const AbortToken& abort) RONDE_EXCLUDES(mutex_);
  /// How often the tensor was compressed before; counts this step.
  std::uint64_t next_step() RONDE_EXCLUDES(mutex_);
  [[nodiscard]] std::uint64_t steps() const RONDE_EXCLUDES(mutex_);
  void set_steps(std::uint64_t steps) RONDE_EXCLUDES(mutex_);

 private:
  struct Free {
    void operator()(void* memory) const noexcept;
  };
  [[nodiscard]] float* wide() const RONDE_REQUIRES(mutex_);
  [[nodiscard]] std::uint16_t* narrow() const RONDE_REQUIRES(mutex_);
  Status fetch(float* values, const AbortToken& abort) const RONDE_REQUIRES(mutex_);
  Status leave_device(const AbortToken& abort) RONDE_REQUIRES(mutex_);

  const std::size_t count_;
  const ResidualFormat format_;
  mutable Mutex mutex_;
  std::unique_ptr<void, Free> values_ RONDE_GUARDED_BY(mutex_);  // null: in home_
  DeviceHome home_ RONDE_GUARDED_BY(mutex_);
  bool zero_ RONDE_GUARDED_BY(mutex_) = true;  // never assigned
  std::uint64_t steps_ RONDE_GUARDED_BY(mutex_) = 0;
};

/// The loss of one tensor in one step.
struct CompressionLoss {
  double lost = 0;    ///< Norm of the residual on this rank.
  double result = 0;  ///< Norm of the result.
};

/// A residual in a checkpoint.
struct SavedResidual {
  int set = 0;  ///< Process set.
  std::string name;
  std::uint64_t steps = 0;
  std::vector<float> values;
};

/// All residuals of a job on this rank, by process set and tensor. Threads: any.
class ResidualStore {
 public:
  /// Tensors beyond `limit_bytes` get no residual; 0 means no limit.
  explicit ResidualStore(std::size_t limit_bytes = 0) : limit_bytes_(limit_bytes) {}

  /// The residual of a tensor of `count` elements. Makes one of zeros if there is none, or, with a
  /// warning, if the tensor had another size. Converts another format if there is room. Null beyond
  /// the limit or without memory.
  std::shared_ptr<Residual> find(int set, const std::string& name, std::size_t count,
                                 ResidualFormat format = ResidualFormat::kFp32)
      RONDE_EXCLUDES(mutex_);
  /// A copy of all, in the order of sets and names. No operation may be under way. Blocks until
  /// devices are done with them. Errors: the devices'.
  [[nodiscard]] Result<std::vector<SavedResidual>> save() const RONDE_EXCLUDES(mutex_);
  /// All ranks of a process set agreed that a warm-up is over. A later load may begin another and
  /// counts in loads().
  void end_warm_up(int set) RONDE_EXCLUDES(mutex_);
  /// How many loads have voided an agreement on the set's warm-ups.
  [[nodiscard]] std::uint64_t loads(int set) const RONDE_EXCLUDES(mutex_);
  /// Replaces all. No operation may be under way. Errors: kInvalidArgument for a name given twice.
  Status load(std::vector<SavedResidual> saved) RONDE_EXCLUDES(mutex_);
  /// Shares all residuals of `last`, whose job has ended, and has none yet. Those of process sets
  /// other than the global one wait for rename_sets().
  void take_over(const ResidualStore& last) RONDE_EXCLUDES(mutex_);
  /// Hands residuals that wait to the sets of this job, and drops the others. `new_ids`: ids in
  /// this job, by those in the last one.
  void rename_sets(const std::map<int, int>& new_ids) RONDE_EXCLUDES(mutex_);
  /// The most steps of any tensor, which all ranks must agree on after take_over().
  [[nodiscard]] std::uint64_t most_steps() const RONDE_EXCLUDES(mutex_);
  /// Puts all residuals, and those that are made from now on, at this step: codecs that draw random
  /// numbers need the same step on all ranks.
  void go_to_step(std::uint64_t step) RONDE_EXCLUDES(mutex_);
  /// The number of tensors.
  [[nodiscard]] std::size_t count() const RONDE_EXCLUDES(mutex_);
  /// Notes the loss of a tensor; the last one counts.
  void note(int set, const std::string& name, const CompressionLoss& loss) RONDE_EXCLUDES(mutex_);
  /// The last losses that were noted, by process set and tensor.
  [[nodiscard]] std::map<std::pair<int, std::string>, CompressionLoss> losses() const
      RONDE_EXCLUDES(mutex_);
  /// Bytes of all residuals.
  [[nodiscard]] std::size_t bytes() const RONDE_EXCLUDES(mutex_);

 private:
  using Key = std::pair<int, std::string>;
  using Residuals = std::map<Key, std::shared_ptr<Residual>>;
  struct Loads {
    std::uint64_t count = 0;
    bool agreed = false;  // on the end of a warm-up, since the last load
  };
  [[nodiscard]] bool has_room(std::size_t size, std::size_t instead_of = 0) const
      RONDE_REQUIRES(mutex_);
  std::shared_ptr<Residual> make(const Key& key, std::size_t count, ResidualFormat format)
      RONDE_REQUIRES(mutex_);
  void reformat(std::shared_ptr<Residual>& residual, ResidualFormat format) RONDE_REQUIRES(mutex_);
  void drop(const Key& key, std::size_t count) RONDE_REQUIRES(mutex_);

  const std::size_t limit_bytes_;
  mutable Mutex mutex_;
  Residuals residuals_ RONDE_GUARDED_BY(mutex_);
  Residuals waiting_ RONDE_GUARDED_BY(mutex_);  // by the last job's ids, for rename_sets()
  std::uint64_t first_step_ RONDE_GUARDED_BY(mutex_) = 0;
  std::map<Key, CompressionLoss> losses_ RONDE_GUARDED_BY(mutex_);
  std::map<int, Loads> loads_ RONDE_GUARDED_BY(mutex_);  // by process set
  std::size_t bytes_ RONDE_GUARDED_BY(mutex_) = 0;
  bool warned_ RONDE_GUARDED_BY(mutex_) = false;
};

}  // namespace ronde
