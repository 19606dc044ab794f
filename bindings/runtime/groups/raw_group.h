// Raw groups: collectives of some ranks without names or negotiation.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bindings/runtime/groups/runtime_state.h"
#include "core/base/abort.h"
#include "core/base/status.h"
#include "core/engine/records/operation_ring.h"
#include "core/ports/event_sink.h"
#include "core/ports/executor.h"
#include "ops/execution/executor.h"

namespace ronde {

/// The context of a raw group, beside its executor.
struct RawGroupOptions {
  std::shared_ptr<AbortToken> abort;
  std::shared_ptr<const ForkMark> mark;
  std::shared_ptr<OperationRing> records;  ///< The record of its operations.
  std::vector<int> ranks;                  ///< Ranks of the job, ascending.
  int rank = 0;                            ///< This one's, in the group.
  std::uint64_t key = 0;                   ///< The same on all its ranks, no other group's.
};

/// Runs the collectives of one group in the calling thread. It may outlive the runtime.
/// Threads: one caller at a time.
class RawGroup {
 public:
  RawGroup(std::unique_ptr<Executor> executor, RawGroupOptions options);
  ~RawGroup();
  RawGroup(const RawGroup&) = delete;
  RawGroup& operator=(const RawGroup&) = delete;

  [[nodiscard]] int rank() const noexcept { return options_.rank; }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(options_.ranks.size()); }
  /// Runs one bundle, as Executor::execute. Blocks.
  Status run(const Bundle& bundle);
  /// The path of the last bundle: "shm", "ring over tcp", ... for bench and doctor.
  [[nodiscard]] std::string last_path() const { return executor_->last_path(); }
  /// As Executor::last_compression().
  [[nodiscard]] CompressionFacts last_compression() const { return executor_->last_compression(); }
  /// As Executor::explain_compression().
  [[nodiscard]] std::vector<std::string> explain_compression() const {
    return executor_->explain_compression();
  }

 private:
  const std::unique_ptr<Executor> executor_;
  const RawGroupOptions options_;
  const RecordTicket reserved_;
  std::uint64_t calls_ = 0;
};

}  // namespace ronde
