#include "bindings/elastic/checkpoint_files.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "tests/timeline/scratch.h"

namespace ronde::elastic {
namespace {

namespace fs = std::filesystem;

CheckpointFiles files_in(const ScratchFolder& folder, int keep = 9,
                         std::vector<std::string> suffixes = {".ronde", ".dcp"}) {
  return {folder.file("new/m"), std::move(suffixes), keep, false};
}

void write_steps(CheckpointFiles& files, std::int64_t first, std::int64_t last) {
  for (std::int64_t step = first; step <= last; ++step) {
    files.write(step, as_bytes("state " + std::to_string(step)));
  }
}

std::vector<std::string> names_in(const ScratchFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.file("new"))) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

bool contains(const std::vector<std::string>& texts, const std::string& part) {
  return std::ranges::any_of(
      texts, [&](const std::string& text) { return text.find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("checkpoint files: the newest whole one is read, the newest stay") {
  const ScratchFolder folder;
  CheckpointFiles files = files_in(folder, 2);
  CHECK_FALSE(files.any());
  CHECK(files.newest_step() == 0);
  write_steps(files, 1, 4);
  CHECK(files.take_problems(true).empty());
  CHECK(names_in(folder) ==
        std::vector<std::string>{"m.000000000003.ronde", "m.000000000004.ronde"});
  CHECK(files_in(folder).newest_step() == 4);
  CHECK(files.read(3).value() == "state 3");
  CHECK_FALSE(files.read(2).ok());
}

TEST_CASE("checkpoint files: the format of released versions is read") {
  const ScratchFolder folder;
  fs::create_directory(folder.file("new"));
  std::ofstream(folder.file("new/m.000000000007.ronde"))
      << "ronde checkpoint 1 7 3 ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n"
         "abc";
  CHECK(files_in(folder).read(7).value() == "abc");
}

TEST_CASE("checkpoint files: a damaged one is set aside, told once, and never counted") {
  const ScratchFolder folder;
  CheckpointFiles files = files_in(folder);
  write_steps(files, 1, 3);
  fs::resize_file(*files.whole(3), 99);
  CHECK(files.newest_step() == 2);
  const auto told = files.take_problems(false);
  REQUIRE(told.size() == 1);
  CHECK(contains(told, "bytes of state, not 7. It is not used, and set aside as m.000000000003"));
  CHECK(files.damaged() == std::vector{fs::path(folder.file("new/m.000000000003.ronde.damaged"))});
  write_steps(files, 3, 3);
  fs::resize_file(*files.whole(3), 0);
  CHECK(files.newest_step() == 2);
  CHECK(names_in(folder).back() == "m.000000000003.ronde.damaged.2");
  StartFacts facts;
  files.tell(facts);
  CHECK(facts.checkpoint == 2);
  CHECK_FALSE(facts.damaged);
}

TEST_CASE("checkpoint files: one that cannot be read is told once a host, and stays") {
  const ScratchFolder folder;
  CheckpointFiles files = files_in(folder);
  write_steps(files, 1, 1);
  fs::create_symlink("/proc/self/mem", folder.file("new/m.000000000002.ronde"));
  CHECK(files.newest_step() == 1);
  CHECK(files.take_problems(false).empty());
  CHECK(files_in(folder).newest_step() == 1);
  CHECK(fs::exists(fs::symlink_status(folder.file("new/m.000000000002.ronde"))));
}

TEST_CASE("checkpoint files: a folder is whole with all of its files") {
  const ScratchFolder folder;
  CheckpointFiles files = files_in(folder, 9, {".dcp", ".ronde"});
  for (const std::int64_t step : {1, 2, 2}) {  // the second one replaces the first
    files.write_folder(step, [](const fs::path& made) { std::ofstream(made / "a") << "piece"; });
  }
  CHECK(files.take_problems(true).empty());
  CHECK(files.whole(2) == fs::path(folder.file("new/m.000000000002.dcp")));
  std::ofstream(*files.whole(2) / "a") << "other";
  CHECK(files.newest_step() == 1);
  CHECK(contains(files.take_problems(true), "the checksum of a is not that of its content"));
  files.write_folder(3, [](const fs::path&) { throw std::runtime_error("planted"); });
  CHECK(contains(files.take_problems(true), "m.000000000003.dcp: planted"));
  CHECK(names_in(folder) ==
        std::vector<std::string>{"m.000000000001.dcp", "m.000000000002.dcp.damaged"});
}

TEST_CASE("checkpoint files: those of another training stay, and are told") {
  const ScratchFolder folder;
  CheckpointFiles files = files_in(folder, 1);
  write_steps(files, 9, 9);
  write_steps(files, 1, 2);
  const auto told = files.take_problems(true);
  REQUIRE(told.size() == 1);
  CHECK(contains(told, "later steps than 1 are there: m.000000000009.ronde"));
  CHECK(names_in(folder) ==
        std::vector<std::string>{"m.000000000002.ronde", "m.000000000009.ronde"});
}

}  // namespace ronde::elastic
