// The communicators of one group for host memory: a dense one, and a compressed one where there are
// wires to compress for.
#pragma once

#include <memory>

#include "core/ports/communicator.h"
#include "ops/communicator/algorithm.h"
#include "ops/communicator/compressed.h"
#include "ops/hierarchical/communicator.h"

namespace ronde {

/// Composes them: compressed(transport), or hierarchical(inside, compressed(between hosts)).
/// Threads: one at a time.
class HostCommunicators {
 public:
  HostCommunicators(HostParts parts, const AlgorithmOptions& options);

  [[nodiscard]] AlgorithmCommunicator& dense() noexcept { return *dense_; }
  [[nodiscard]] const AlgorithmCommunicator& dense() const noexcept { return *dense_; }
  /// True if work uses two levels.
  [[nodiscard]] bool levels() const noexcept { return levels_; }
  /// True if the ranks share memory: no codec is faster.
  [[nodiscard]] bool in_memory() const noexcept { return in_memory_; }
  /// The path of a compressed allreduce: kCompressed, or kLocal.
  /// Errors: kUnsupported where there is no transport.
  [[nodiscard]] Result<Path> compressed_path(const Work& work) const;
  /// Runs compressed allreduces once codec() is bound.
  [[nodiscard]] Communicator& compressed() noexcept {
    return compressed_ == nullptr ? *dense_ : *compressed_;
  }
  /// Bundles bind their codec here; null if nothing is compressed.
  [[nodiscard]] CompressedCommunicator* codec() noexcept { return codec_; }

 private:
  const bool levels_;
  bool in_memory_ = false;
  std::unique_ptr<AlgorithmCommunicator> dense_;
  TransportCompressed* codec_ = nullptr;      // inside compressed_
  std::unique_ptr<Communicator> compressed_;  // null where there are no wires
};

}  // namespace ronde
