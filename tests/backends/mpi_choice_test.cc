#include "backends/mpi_choice.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

namespace ronde {
namespace {

namespace fs = std::filesystem;

/// A folder that goes with the test, and the environment of a process in it.
class Machine {
 public:
  Machine()
      : folder_(fs::temp_directory_path() / ("ronde-mpi-choice-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~Machine() { fs::remove_all(folder_); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  std::string file(const std::string& name) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << "x";
    return (folder_ / name).string();
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void set(const std::string& name, const std::string& value) { variables_[name] = value; }

  MpiChoice choose(std::vector<std::string> loaded = {}, std::string folder = {}) const {
    const Environment environment = [this](const std::string& name) -> std::optional<std::string> {
      const auto found = variables_.find(name);
      if (found == variables_.end()) return std::nullopt;
      return found->second;
    };
    return choose_mpi({std::move(loaded), environment, std::move(folder)});
  }

 private:
  const fs::path folder_;
  std::map<std::string, std::string> variables_;
};

TEST_CASE("without any sign the module is Open MPI's, and the linker finds the library") {
  const MpiChoice choice = Machine().choose();
  CHECK(choice.module == "libronde_mpi.so");
  CHECK(choice.library.empty());
}

TEST_CASE("a library that is loaded decides, against variables and PATH") {
  Machine machine;
  machine.set("OMPI_COMM_WORLD_SIZE", "2");
  for (const char* mpich : {"/venv/lib/libmpi.so.12", "/usr/lib/libmpich.so.12.2.1"}) {
    const MpiChoice choice = machine.choose({"/lib/libc.so.6", mpich});
    CHECK(choice.module == "libronde_mpich.so");
    CHECK(choice.library.empty());  // it is there
    CHECK(choice.reason == std::string(mpich) + " is loaded");
  }
  machine.set("PMI_SIZE", "2");
  CHECK(machine.choose({"/usr/lib/libmpi.so.40.30.4"}).module == "libronde_mpi.so");
}

TEST_CASE("the launcher's variables decide before PATH") {
  Machine machine;
  machine.file("ompi/bin/mpirun");
  machine.file("ompi/lib/libmpi.so.40");
  machine.set("PATH", machine.path("ompi/bin"));
  machine.set("PMI_SIZE", "2");
  CHECK(machine.choose().module == "libronde_mpich.so");
  CHECK(machine.choose().library.empty());  // of another MPI than the one on PATH
  machine.set("OMPI_COMM_WORLD_SIZE", "2");
  CHECK(machine.choose().module == "libronde_mpi.so");
  CHECK(machine.choose().library == machine.path("ompi/lib/libmpi.so.40"));
}

TEST_CASE("the first mpirun on PATH decides, with the library of its prefix") {
  Machine machine;
  machine.file("mpich/bin/mpiexec");
  const std::string library = machine.file("mpich/lib/libmpi.so.12");
  machine.file("ompi/bin/mpirun");
  machine.file("ompi/lib/libmpi.so.40");
  machine.set("PATH", machine.path("none") + ":" + machine.path("mpich/bin") + ":" +
                          machine.path("ompi/bin"));
  const MpiChoice choice = machine.choose();
  CHECK(choice.module == "libronde_mpich.so");
  CHECK(choice.library == library);
  CHECK(choice.reason == machine.path("mpich/bin/mpiexec") + " is first on PATH");
}

TEST_CASE("an mpirun without its library beside it is known by the program that it links to") {
  Machine machine;
  machine.file("bin/mpiexec.hydra");
  fs::create_symlink("mpiexec.hydra", machine.path("bin/mpirun"));
  machine.set("PATH", machine.path("bin"));
  CHECK(machine.choose().module == "libronde_mpich.so");
  CHECK(machine.choose().library.empty());
}

TEST_CASE("the library in the environment that holds the package is used, if no mpirun tells") {
  Machine machine;
  const std::string library = machine.file("venv/lib/libmpi.so.12");
  CHECK(machine.choose({}, machine.path("venv/lib")).module == "libronde_mpich.so");
  CHECK(machine.choose({}, machine.path("venv/lib")).library == library);
}

TEST_CASE("the system's mpirun keeps its library, though the environment has another of that ABI") {
  Machine machine;
  machine.file("bin/orterun");
  machine.file("venv/lib/libmpi.so.40");
  fs::create_symlink("orterun", machine.path("bin/mpirun"));
  machine.set("PATH", machine.path("bin"));
  machine.set("OMPI_COMM_WORLD_SIZE", "2");
  const MpiChoice choice = machine.choose({}, machine.path("venv/lib"));
  CHECK(choice.module == "libronde_mpi.so");
  CHECK(choice.library.empty());
}

TEST_CASE("this process is described by its libraries and the folder above site-packages") {
  const MpiSurroundings here = mpi_surroundings("/venv/lib/python3.11/site-packages/ronde");
  CHECK(here.library_folder == "/venv/lib/");
  CHECK(std::ranges::any_of(here.loaded, [](const std::string& path) {
    return path.find("libc.so") != std::string::npos;
  }));
}

}  // namespace
}  // namespace ronde
