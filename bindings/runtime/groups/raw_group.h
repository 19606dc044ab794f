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

/// Runs the collectives of one group in the calling thread. Threads: one caller at a time.
class RawGroup {
 public:
  virtual ~RawGroup() = default;
  [[nodiscard]] virtual int rank() const noexcept = 0;
  [[nodiscard]] virtual int size() const noexcept = 0;
  /// Runs one bundle, as Executor::execute. Blocks.
  virtual Status run(const Bundle& bundle) = 0;
  /// The path of the last bundle: "shm", "ring over tcp", ... for bench and doctor.
  [[nodiscard]] virtual std::string last_path() const = 0;
  /// As Executor::last_compression().
  [[nodiscard]] virtual CompressionFacts last_compression() const = 0;
  /// As Executor::explain_compression().
  [[nodiscard]] virtual std::vector<std::string> explain_compression() const = 0;
};

/// The context of a raw group, beside its executor.
struct RawGroupOptions {
  std::shared_ptr<AbortToken> abort;
  std::shared_ptr<const ForkMark> mark;
  std::shared_ptr<OperationRing> records;  ///< The record of its operations.
  std::vector<int> ranks;                  ///< Ranks of the job, ascending.
  int rank = 0;                            ///< This one's, in the group.
  std::uint64_t key = 0;                   ///< The same on all its ranks, no other group's.
};

/// Makes a raw group of an executor. It may outlive the runtime.
std::unique_ptr<RawGroup> make_raw_group(std::unique_ptr<Executor> executor,
                                         RawGroupOptions options);

}  // namespace ronde
