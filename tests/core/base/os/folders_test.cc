// Folders that vanish are no exceptions.
#include "core/base/os/folders.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <fstream>

namespace ronde {
namespace {

namespace fs = std::filesystem;

/// A folder in which this process runs, until it goes out of scope.
class CurrentFolder {
 public:
  CurrentFolder() {
    std::string name = (fs::temp_directory_path() / "ronde-folder-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
    fs::current_path(path_);
  }
  ~CurrentFolder() {
    fs::current_path(before_);
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  CurrentFolder(const CurrentFolder&) = delete;
  CurrentFolder& operator=(const CurrentFolder&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  const fs::path before_ = fs::current_path();
  fs::path path_;
};

TEST_CASE("folders: paths are absolute by the current folder") {
  const CurrentFolder folder;
  CHECK(*current_folder() == fs::current_path().string());
  CHECK(absolute_path("a/b") == (fs::current_path() / "a/b").string());
  CHECK(absolute_path("/a") == "/a");
  CHECK(is_folder("."));
  CHECK(is_there("."));
  CHECK_FALSE(is_there("none"));
  fs::create_directory("one");
  CHECK(paths_in(folder.path()) == std::vector<fs::path>{folder.path() / "one"});
}

TEST_CASE("folders: one that is gone is an error in words, or empty") {
  const CurrentFolder folder;
  fs::remove(folder.path());
  const auto current = current_folder();
  CHECK(current.status().code() == Code::kUnavailable);
  CHECK(current.status().message().find("may have been deleted") != std::string::npos);
  CHECK(absolute_path("a") == "a");
  CHECK_FALSE(is_folder(folder.path()));
  CHECK(paths_in(".").empty());
  CHECK(paths_in(folder.path()).empty());
}

TEST_CASE("folders: a file is read as a whole; a folder, and none, are errors in words") {
  const CurrentFolder folder;
  const std::string text(100'000, 'x');
  std::ofstream("file") << text;
  CHECK(*read_file("file") == text);
  CHECK(read_file(folder.path().string()).status().message() == "Is a directory");
  CHECK(read_file("none").status().message() == "No such file or directory");
}

}  // namespace
}  // namespace ronde
