// Shared by the sources of the C++ API: Status as exceptions, the public Group of a raw one.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <utility>

#include "bindings/cpp/set_table.h"
#include "bindings/runtime/groups/raw_group.h"
#include "bindings/runtime/runtime.h"
#include "core/base/status.h"
#include "ronde/ronde.h"

namespace ronde {

/// Throws the exception type of the status's code; returns when ok.
void throw_if_error(const Status& status);

/// The value, or the exception.
template <typename T>
T value_or_throw(Result<T> result) {
  throw_if_error(result.status());
  return std::move(result).value();
}

/// The runtime of a job; elastic jobs replace it, once it is shut down, by that of the next epoch.
class Job::Impl {
 public:
  std::shared_ptr<Runtime> runtime;                 ///< Null before the first one.
  std::unique_ptr<elastic::SetTable> elastic_sets;  ///< Null if the job is not elastic.
  std::map<SetId, int> sharded_optimizers;          ///< Made so far with this runtime.

  /// Replaces the runtime.
  void enter(std::shared_ptr<Runtime> next) {
    current_ = next.get();
    runtime.swap(next);
    sharded_optimizers.clear();  // ranks that have joined count from zero
  }
  /// Safe in signal handlers, also while enter() runs.
  void interrupt() noexcept {
    if (Runtime* const now = current_) now->interrupt();
  }
  /// The runtime's number of a set.
  [[nodiscard]] SetId id_of(ProcessSet set) const {
    return elastic_sets ? value_or_throw(elastic_sets->id_of(set.id)) : set.id;
  }

 private:
  std::atomic<Runtime*> current_ = nullptr;
};

/// Leaves the job and joins the one of the environment, which is no elastic job. Blocks.
void restart(Job::Impl& job);

/// The group keeps `runtime` alive.
Group make_group(std::unique_ptr<RawGroup> group, std::shared_ptr<Runtime> runtime);

}  // namespace ronde
