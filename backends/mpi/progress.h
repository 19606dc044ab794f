// Memory that MPI may use, and waits for it that an abort ends.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <span>

#include "core/base/abort.h"
#include "core/base/status.h"

namespace ronde::mpi {

/// Staging memory in place of the user's, as MPI cannot be made to release memory.
class Staging {
 public:
  Staging() = default;
  /// At least `bytes`, uninitialised.
  explicit Staging(std::size_t bytes);

  [[nodiscard]] std::byte* data() noexcept { return memory_.get(); }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  /// Makes it at least `bytes` long; what was in it is lost.
  void reserve(std::size_t bytes);
  /// Never frees the memory: MPI may still use it.
  void abandon();

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t capacity_ = 0;
};

/// Waits until all requests are done. On an error they are left alone: abandon their staging.
/// Errors: the abort's status within milliseconds; kRankFailure with MPI's message.
Status wait_all(std::span<MPI_Request> requests, const AbortToken& abort);

}  // namespace ronde::mpi
