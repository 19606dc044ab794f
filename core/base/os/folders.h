// Folders, files and paths without exceptions: a folder may be deleted at any time, also this
// process's.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace ronde {

/// The folder in which this process runs. Errors: kUnavailable where it is gone.
Result<std::string> current_folder();

/// `path` from the root on; `path` itself where the current folder is gone.
std::string absolute_path(const std::string& path);

/// True if there is a folder of this name. False also where that cannot be told.
bool is_folder(const std::filesystem::path& path) noexcept;

/// True if there is something of this name. False also where that cannot be told.
bool is_there(const std::filesystem::path& path) noexcept;

/// The paths of what the folder holds, in no order; empty where it cannot be read, those read so
/// far where it vanishes meanwhile.
std::vector<std::filesystem::path> paths_in(const std::filesystem::path& folder);

/// All bytes of a file. Errors: kUnavailable, in the system's words alone, also for a folder.
Result<std::string> read_file(const std::string& path);

}  // namespace ronde
