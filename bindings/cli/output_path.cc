#include "bindings/cli/output_path.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "core/base/os/file_descriptor.h"
#include "core/base/os/folders.h"

namespace ronde {
namespace {

namespace fs = std::filesystem;

Status refused(std::string_view option, const std::string& path, std::string_view why) {
  return {Code::kInvalidArgument, fmt::format("{} {}: {}", option, path, why)};
}

std::string last_error() { return std::generic_category().message(errno); }

/// Opens a file that is there, as its writer will.
Status check_existing(std::string_view option, const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return file.valid() ? Status()
                      : refused(option, path, "the file cannot be written: " + last_error());
}

/// Makes a file of another name in the folder, for a moment.
Status check_folder(std::string_view option, const std::string& path, const fs::path& folder) {
  std::string name = (folder / ".ronde-XXXXXX").string();
  const FileDescriptor file(::mkostemp(name.data(), O_CLOEXEC));
  if (!file.valid()) {
    return refused(
        option, path,
        fmt::format("no file can be made in the folder {}: {}", folder.string(), last_error()));
  }
  ::unlink(name.c_str());
  return {};
}

}  // namespace

Status check_output_file(std::string_view option, const std::string& path) {
  if (path.empty()) return {};
  std::error_code ignored;
  const fs::file_status found = fs::status(path, ignored);
  if (fs::is_directory(found)) {
    return refused(option, path,
                   fmt::format("this is a folder; name a file in it, such as {}",
                               (fs::path(path) / "out").string()));
  }
  if (fs::is_regular_file(found)) return check_existing(option, path);
  if (fs::exists(found)) return {};
  const fs::path folder = fs::path(absolute_path(path)).parent_path();
  if (!fs::is_directory(folder, ignored)) {
    return refused(option, path,
                   fmt::format("there is no folder {}; make it first", folder.string()));
  }
  return check_folder(option, path, folder);
}

Status make_output_folder(std::string_view option, const std::string& path) {
  if (path.empty()) return {};
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_directory(path, error)) {
    return refused(option, path, "this is a file; a folder is needed");
  }
  fs::create_directories(path, error);
  if (error) {
    return refused(option, path,
                   fmt::format("cannot make the folder {}: {}", path, error.message()));
  }
  return check_folder(option, path, path);
}

}  // namespace ronde
