// What the ranks of an epoch tell each other: at commits, at the start and at the end.
//
// One small allreduce of maxima serves commits and ends, so that ranks with unequal numbers of
// commits do not wait for each other forever.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/runtime/runtime.h"
#include "core/base/bytes.h"
#include "core/base/collective.h"
#include "core/base/dtype.h"
#include "core/base/status.h"
#include "core/base/wire_codec.h"
#include "core/elastic/agreement.h"
#include "core/engine/queues/operation.h"

namespace ronde::elastic {

/// The ranks of the job that a runtime is in. All calls are collective, and block. Errors: those of
/// operations, and of `wait`. Threads: one.
class Ranks {
 public:
  /// Waits for an operation as a binding does, and returns its status.
  using Wait = std::function<Status(Runtime&, const OperationPtr&)>;

  /// The runtime outlives it. wait: by default that of Operations.
  explicit Ranks(Runtime& runtime, Wait wait = {}) : runtime_(runtime), wait_(std::move(wait)) {}

  [[nodiscard]] Runtime& runtime() noexcept { return runtime_; }

  /// Joins the facts of all ranks. A worker that is asked to leave adds its leave.
  Result<CommitFacts> agree(CommitFacts mine);
  /// The newest step of which any rank has a copy.
  Result<std::int64_t> newest_step(std::int64_t step) { return greatest("elastic.step", step); }
  /// Returns once all ranks have called it.
  Status meet() { return greatest("elastic.started", 0).status(); }

  /// The bytes of all ranks, one after another.
  Result<std::string> gather_bytes(const char* name, std::string mine);
  /// The messages of all ranks, by rank.
  template <typename Facts>
  Result<std::vector<Facts>> gather(const char* name, const Facts& mine) {
    RONDE_ASSIGN_OR_RETURN(const std::string all,
                           gather_bytes(name, encode_wire<std::string>(mine)));
    return decode_ranks<Facts>(as_bytes(all), runtime_.size());
  }

  /// The bytes of all ranks for this one, and how many are of which rank.
  struct Received {
    std::string bytes;
    std::vector<std::int64_t> sizes;
  };
  /// Sends each rank its part of the bytes. sizes: of the parts, by rank.
  Result<Received> exchange(const char* name, std::string bytes, std::vector<std::int64_t> sizes);

 private:
  Result<std::int64_t> greatest(const char* name, std::int64_t value);
  Result<Received> run(Collective kind, const char* name, std::string bytes,
                       std::vector<std::int64_t> sizes = {}, DType dtype = DType::kUint8);

  Runtime& runtime_;
  const Wait wait_;
};

}  // namespace ronde::elastic
