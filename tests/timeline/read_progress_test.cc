#include "timeline/read_progress.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "tests/timeline/scratch.h"

namespace ronde {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

using Told = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

std::string file_of(const std::string& path, std::uint64_t bytes) {
  std::ofstream(path).flush();
  std::filesystem::resize_file(path, bytes);
  return path;
}

TEST_CASE("ProgressTeller: tells every 16 MiB over all files, and at the end, once") {
  const ScratchFolder scratch;
  const auto a = file_of(scratch.file("a"), 30 * kMiB);
  const auto b = file_of(scratch.file("b"), 10 * kMiB);
  Told told;
  const ReadProgress progress = [&](std::uint64_t done, std::uint64_t total) {
    told.emplace_back(done, total);
  };
  ProgressTeller teller({a, b}, progress);
  for (std::uint64_t mib = 1; mib <= 30; ++mib) teller.tell(mib * kMiB);
  teller.end(30 * kMiB);
  CHECK(told == Told{{16 * kMiB, 40 * kMiB}});
  teller.tell(3 * kMiB);
  teller.end(10 * kMiB);
  teller.tell(0);
  CHECK(told == Told{{16 * kMiB, 40 * kMiB}, {33 * kMiB, 40 * kMiB}, {40 * kMiB, 40 * kMiB}});
}

TEST_CASE("ProgressTeller: nobody need listen, and a file that is not there counts nothing") {
  const ScratchFolder scratch;
  CHECK(bytes_of(scratch.file("none")) == 0);
  const ReadProgress nobody;
  ProgressTeller teller({scratch.file("none")}, nobody);
  teller.end(kMiB);
}

}  // namespace
}  // namespace ronde
