// Error feedback: what compression has not delivered yet, kept by tensor, so that it survives any
// change of fusion. In units of the result: whatever factors were in force when it was left over.
// It lies in host memory, or in a device's once that has compressed the tensor.
// Source: Karimireddy et al., "Error Feedback Fixes SignSGD", ICML 2019.
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

/// Memory of a device, and the stream in whose order it is read and written.
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
  /// What it takes, wherever it lies.
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// values[i] += residual[begin + i]. It lies in host memory.
  void add_to(std::span<float> values, std::size_t begin) const RONDE_EXCLUDES(mutex_);
  /// residual[begin + i] = values[i]; bf16 rounds by bits that depend on the step and the element.
  /// It lies in host memory.
  void assign(std::span<const float> values, std::size_t begin) RONDE_EXCLUDES(mutex_);
  /// A copy, from wherever it lies. Blocks until a device is done with it.
  /// Errors: the device's, as those of the next two.
  [[nodiscard]] Result<std::vector<float>> values() const RONDE_EXCLUDES(mutex_);
  /// Its values in the memory of `device`, for work on `stream`; null where they are not there.
  [[nodiscard]] float* on_device(const DeviceOps& device, DeviceStream stream) const
      RONDE_EXCLUDES(mutex_);
  /// Takes it to `home`, which has room for it: fp32 only. Blocks where there is anything to copy.
  Status move_to(DeviceHome home, const AbortToken& abort) RONDE_EXCLUDES(mutex_);
  /// Takes it to host memory, unless it is there. Blocks likewise; throws std::bad_alloc.
  Status move_to_host(const AbortToken& abort) RONDE_EXCLUDES(mutex_);
  /// How often the tensor has been compressed; counts up with each call of next_step().
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
  std::unique_ptr<void, Free> values_ RONDE_GUARDED_BY(mutex_);  // null: at home_
  DeviceHome home_ RONDE_GUARDED_BY(mutex_);
  bool zero_ RONDE_GUARDED_BY(mutex_) = true;  // nothing was ever assigned
  std::uint64_t steps_ RONDE_GUARDED_BY(mutex_) = 0;
};

/// What compression has left over of one tensor in one step.
struct CompressionLoss {
  double lost = 0;    ///< Norm of what waits on this rank.
  double result = 0;  ///< Norm of what all ranks got.
};

/// A residual as it is saved.
struct SavedResidual {
  int set = 0;  ///< Process set.
  std::string name;
  std::uint64_t steps = 0;
  std::vector<float> values;
};

/// All residuals of a job on this rank, by process set and tensor. Threads: any.
class ResidualStore {
 public:
  /// `limit_bytes`: tensors beyond it get no residual; 0 means no limit.
  explicit ResidualStore(std::size_t limit_bytes = 0) : limit_bytes_(limit_bytes) {}

  /// The residual of a tensor of `count` elements, made where there is none; a new one, zero, where
  /// the tensor had another size (with a warning). One of another format is brought to `format`
  /// where there is room for it. Null beyond the limit or without memory.
  std::shared_ptr<Residual> find(int set, const std::string& name, std::size_t count,
                                 ResidualFormat format = ResidualFormat::kFp32)
      RONDE_EXCLUDES(mutex_);
  /// A copy of all, in the order of sets and names. No operation may be under way. Blocks until
  /// devices are done with theirs. Errors: theirs.
  [[nodiscard]] Result<std::vector<SavedResidual>> save() const RONDE_EXCLUDES(mutex_);
  /// Replaces all. No operation may be under way. Errors: kInvalidArgument for a name given twice.
  Status load(std::vector<SavedResidual> saved) RONDE_EXCLUDES(mutex_);
  /// Notes what a step has left over of a tensor; the last one counts.
  void note(int set, const std::string& name, const CompressionLoss& loss) RONDE_EXCLUDES(mutex_);
  /// The last that was noted, by process set and tensor.
  [[nodiscard]] std::map<std::pair<int, std::string>, CompressionLoss> losses() const
      RONDE_EXCLUDES(mutex_);
  /// What all residuals take, in bytes.
  [[nodiscard]] std::size_t bytes() const RONDE_EXCLUDES(mutex_);

 private:
  using Key = std::pair<int, std::string>;
  [[nodiscard]] bool has_room(std::size_t size, std::size_t instead_of = 0) const
      RONDE_REQUIRES(mutex_);
  std::shared_ptr<Residual> make(const Key& key, std::size_t count, ResidualFormat format)
      RONDE_REQUIRES(mutex_);
  void reformat(std::shared_ptr<Residual>& residual, ResidualFormat format) RONDE_REQUIRES(mutex_);
  void drop(const Key& key, std::size_t count) RONDE_REQUIRES(mutex_);

  const std::size_t limit_bytes_;
  mutable Mutex mutex_;
  std::map<Key, std::shared_ptr<Residual>> residuals_ RONDE_GUARDED_BY(mutex_);
  std::map<Key, CompressionLoss> losses_ RONDE_GUARDED_BY(mutex_);
  std::size_t bytes_ RONDE_GUARDED_BY(mutex_) = 0;
  bool warned_ RONDE_GUARDED_BY(mutex_) = false;
};

}  // namespace ronde
