// The MPI backend's error in a process that mpirun has not started.
#include <doctest/doctest.h>

#include "backends/mpi/factory.h"

namespace ronde {
namespace {

GroupSpec group_of(int size) {
  GroupSpec group;
  for (int r = 0; r < size; ++r) group.ranks.push_back(r);
  return group;
}

TEST_CASE("mpi: without mpirun a group of two is not viable, and the reason names mpirun") {
  const auto backend = create_mpi_backend({});
  const Status status = backend->viable(group_of(2));
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.message().find("mpirun") != std::string::npos);
}

TEST_CASE("mpi: a process alone needs no mpirun") {
  CHECK(create_mpi_backend({})->viable(group_of(1)).ok());
}

}  // namespace
}  // namespace ronde
