// Chooses the MPI module of this process: Open MPI 4 and 5 share an ABI, MPICH has another.
#pragma once

#include <string>
#include <vector>

#include "core/base/settings/config.h"

namespace ronde {

/// An MPI library, and the module that is compiled for its ABI.
struct MpiChoice {
  std::string module;   ///< "libronde_mpi.so" (Open MPI) or "libronde_mpich.so".
  std::string library;  ///< Path of the MPI library to load first; empty: the linker finds it.
  std::string reason;   ///< Such as "/usr/bin/mpirun is first on PATH", for messages.
};

/// The facts that the choice rests on.
struct MpiSurroundings {
  std::vector<std::string> loaded;  ///< Paths of the libraries of this process.
  Environment environment;          ///< Of this process: PATH, and the variables of mpirun.
  std::string library_folder;       ///< Searched after PATH, as PyPI's MPI lies in the venv's lib.
};

/// Chooses by the MPI library that is loaded already, then by the launcher's variables, then by the
/// mpirun (or mpiexec) that is first on PATH. Open MPI if none of them tells. Threads: any.
MpiChoice choose_mpi(const MpiSurroundings& surroundings);

/// Describes this process. `module_folder` holds the modules: site-packages/ronde in a wheel.
MpiSurroundings mpi_surroundings(const std::string& module_folder);

}  // namespace ronde
