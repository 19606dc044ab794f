// The programs called mpirun: their options and their output differ.
#pragma once

#include <string_view>

#include "core/base/status.h"

namespace ronde {

enum class MpirunKind {
  kOpenMpi4,
  kOpenMpi5,  ///< Writes a blank after each tag.
  kMpich,     ///< Hydra, also of other MPIs with MPICH's ABI.
};

/// The kind that prints this for `mpirun --version`. Open MPI 4 if the text tells nothing.
MpirunKind mpirun_kind_of(std::string_view version);

/// The kind of the mpirun that is first on PATH. Blocks until it has printed its version.
/// Errors: kUnavailable with a remedy where there is none.
Result<MpirunKind> installed_mpirun();

}  // namespace ronde
