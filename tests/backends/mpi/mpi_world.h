// The ranks of an mpirun as a group for a backend, with MPI itself as the Exchange.
#pragma once

#include <memory>

#include "core/ports/backend.h"

namespace ronde::test {

/// All ranks that mpirun started. MPI is initialised at the level that RONDE_TEST_MPI_LEVEL asks
/// for ("nobody" leaves it to the backend), and finalised by the side that initialised it.
class MpiWorld {
 public:
  /// The one of this process.
  static MpiWorld& instance();

  [[nodiscard]] int rank() const noexcept { return topology_.rank; }
  [[nodiscard]] int size() const noexcept { return topology_.size(); }
  /// True if the test, not the backend, initialised MPI and ends it.
  [[nodiscard]] bool finalizes() const noexcept { return finalizes_; }
  /// A group of all ranks with a token of its own; the key differs from call to call.
  [[nodiscard]] GroupSpec group();
  /// Opens that group with `backend`.
  [[nodiscard]] std::unique_ptr<Communicator> open(Backend& backend, const GroupSpec& group);

 private:
  MpiWorld();

  bool finalizes_ = false;
  Topology topology_;
  std::uint64_t key_ = 0;
};

/// Exchange over MPI_COMM_WORLD.
class MpiExchange final : public Exchange {
 public:
  Result<std::vector<std::string>> allgather(std::string_view mine) override;
};

}  // namespace ronde::test
