#include "backends/mpi_choice.h"

#include <fmt/format.h>
#include <link.h>

#include <array>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string_view>

namespace ronde {
namespace {

namespace fs = std::filesystem;

/// One ABI of MPI.
struct Family {
  std::string_view module;
  std::string_view soname;                    ///< Of its library.
  std::string_view other_name;                ///< Under which Debian's is loaded.
  std::string_view variable;                  ///< Set by its launcher, and by no other.
  std::array<std::string_view, 3> launchers;  ///< Parts of the names of its mpirun.
};
constexpr Family kOpenMpi = {"libronde_mpi.so",
                             "libmpi.so.40",
                             "libmpi.so.40",
                             "OMPI_COMM_WORLD_SIZE",
                             {"openmpi", "orterun", "prterun"}};
constexpr Family kMpich = {"libronde_mpich.so",
                           "libmpi.so.12",
                           "libmpich.so.12",
                           "PMI_SIZE",
                           {"mpich", "hydra", "mpiexec.gforker"}};
constexpr std::array kFamilies = {&kOpenMpi, &kMpich};

bool is_library_of(const Family& family, const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  return name.starts_with(family.soname) || name.starts_with(family.other_name);
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

/// The family's library in that folder; empty where it is not there.
std::string library_in(const Family& family, const fs::path& folder) {
  const fs::path file = folder / family.soname;
  return is_there(file) ? file.string() : std::string();
}

/// The first mpirun or mpiexec on PATH; empty without one.
fs::path launcher_on_path(const Environment& environment) {
  std::istringstream folders(environment("PATH").value_or(""));
  for (std::string folder; std::getline(folders, folder, ':');) {
    for (const char* name : {"mpirun", "mpiexec"}) {
      if (is_there(fs::path(folder) / name)) return fs::path(folder) / name;
    }
  }
  return {};
}

/// The family of a launcher, by the library of the same prefix, then by its name without links.
const Family* family_of(const fs::path& launcher) {
  const fs::path prefix = launcher.parent_path().parent_path();
  std::error_code error;
  const std::string program = fs::canonical(launcher, error).filename().string();
  for (const Family* family : kFamilies) {
    if (!library_in(*family, prefix / "lib").empty()) return family;
  }
  for (const Family* family : kFamilies) {
    for (const std::string_view part : family->launchers) {
      if (program.find(part) != std::string::npos) return family;
    }
  }
  return nullptr;
}

/// The library that belongs to the family's launcher on PATH, else the one in `folder`.
std::string library_of(const Family& family, const fs::path& launcher, const std::string& folder) {
  if (!launcher.empty() && family_of(launcher) == &family) {
    // A system's library, in a folder of its architecture, is the linker's to find.
    return library_in(family, launcher.parent_path().parent_path() / "lib");
  }
  return folder.empty() ? std::string() : library_in(family, folder);
}

}  // namespace

MpiChoice choose_mpi(const MpiSurroundings& surroundings) {
  for (const std::string& path : surroundings.loaded) {
    for (const Family* family : kFamilies) {
      if (!is_library_of(*family, path)) continue;
      return {std::string(family->module), {}, fmt::format("{} is loaded", path)};
    }
  }
  const fs::path launcher = launcher_on_path(surroundings.environment);
  const auto choice = [&](const Family& family, std::string reason) {
    return MpiChoice{std::string(family.module),
                     library_of(family, launcher, surroundings.library_folder), std::move(reason)};
  };
  for (const Family* family : kFamilies) {
    if (!surroundings.environment(std::string(family->variable))) continue;
    return choice(*family, fmt::format("{} is set", family->variable));
  }
  if (!launcher.empty()) {
    if (const Family* family = family_of(launcher)) {
      return choice(*family, fmt::format("{} is first on PATH", launcher.string()));
    }
  }
  for (const Family* family : kFamilies) {
    const std::string library = library_of(*family, launcher, surroundings.library_folder);
    if (!library.empty()) return choice(*family, fmt::format("{} is there", library));
  }
  return choice(kOpenMpi, "nothing names another MPI");
}

MpiSurroundings mpi_surroundings(const std::string& module_folder) {
  MpiSurroundings here;
  here.environment = process_environment();
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* loaded) {
        static_cast<std::vector<std::string>*>(loaded)->emplace_back(info->dlpi_name);
        return 0;
      },
      &here.loaded);
  // lib/python3.x/site-packages/ronde, in an environment.
  here.library_folder = fs::path(module_folder).append("../../..").lexically_normal().string();
  return here;
}

}  // namespace ronde
