#include "bindings/cli/launch/mpirun_kind.h"

#include <doctest/doctest.h>

namespace ronde {
namespace {

TEST_CASE("mpirun's kind is read from its version") {
  CHECK(mpirun_kind_of("mpirun (Open MPI) 4.1.4\n\nReport bugs to") == MpirunKind::kOpenMpi4);
  CHECK(mpirun_kind_of("mpirun (Open MPI) 5.0.11\n") == MpirunKind::kOpenMpi5);
  CHECK(mpirun_kind_of("mpirun (Open MPI) 10.0.0rc1\n") == MpirunKind::kOpenMpi5);
  CHECK(mpirun_kind_of("HYDRA build details:\n    Version: 5.0.2\n") == MpirunKind::kMpich);
  CHECK(mpirun_kind_of("") == MpirunKind::kOpenMpi4);
}

}  // namespace
}  // namespace ronde
