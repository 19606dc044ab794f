#include "ops/selection/path.h"

#include <doctest/doctest.h>

namespace ronde {
namespace {

constexpr Facts kDevice = static_cast<Facts>(Fact::kOnDevice);
constexpr Facts kWires = static_cast<Facts>(Fact::kTransport);
constexpr Facts kCompressedDevice = kDevice | Fact::kCompressed | Fact::kTransport;

}  // namespace

TEST_CASE("path: one rank copies, whatever there is") {
  CHECK(select_path(static_cast<Facts>(Fact::kOneRank)) == Path::kLocal);
  CHECK(select_path(Fact::kOneRank | Fact::kCompressed | Fact::kTransport) == Path::kLocal);
}

TEST_CASE("path: host memory by native collectives where those are best, else by an algorithm") {
  CHECK(select_path(Fact::kNative | Fact::kPrefersNative) == Path::kNative);
  CHECK(select_path(Fact::kNative | Fact::kPrefersNative | Fact::kTransport) == Path::kNative);
  CHECK(select_path(Fact::kNative | Fact::kTransport) == Path::kAlgorithm);
  CHECK(select_path(Fact::kPrefersNative | Fact::kTransport) == Path::kAlgorithm);
  CHECK(select_path(kWires) == Path::kAlgorithm);
}

TEST_CASE("path: what nothing here can do has none") {
  CHECK(select_path(0) == Path::kNone);
  CHECK(select_path(static_cast<Facts>(Fact::kPrefersNative)) == Path::kNone);
  CHECK(select_path(Fact::kCompressed | Fact::kNative | Fact::kPrefersNative) == Path::kNone);
}

TEST_CASE("path: compressed work in host memory goes over wires, even past native collectives") {
  CHECK(select_path(kWires | Fact::kCompressed) == Path::kCompressed);
  CHECK(select_path(kWires | Fact::kCompressed | Fact::kNative | Fact::kPrefersNative) ==
        Path::kCompressed);
  CHECK(select_path(kWires | Fact::kCompressed | Fact::kLevels) == Path::kCompressed);
}

TEST_CASE("path: device memory by its own communicator, else staged") {
  CHECK(select_path(kDevice | Fact::kNative) == Path::kNative);
  CHECK(select_path(kDevice | Fact::kNative | Fact::kNoLaunchOrder) == Path::kStaged);
  CHECK(select_path(kDevice) == Path::kStaged);
  CHECK(select_path(kDevice | Fact::kOneRank) == Path::kStaged);
  CHECK(select_path(kDevice | Fact::kTransport | Fact::kLevels) == Path::kStaged);
}

TEST_CASE("path: frames of a device travel by its communicator, or through a host without levels") {
  const Facts frames = kCompressedDevice | Fact::kDeviceFrames;
  CHECK(select_path(frames | Fact::kNative) == Path::kFrames);
  CHECK(select_path(frames | Fact::kNative | Fact::kLevels) == Path::kFrames);
  CHECK(select_path(frames) == Path::kStagedFrames);
  CHECK(select_path(frames | Fact::kNative | Fact::kNoLaunchOrder) == Path::kStagedFrames);
  CHECK(select_path(frames | Fact::kLevels) == Path::kHostCodecs);
}

TEST_CASE("path: lists of a device travel over the host's wires, where they are short") {
  const Facts lists = kCompressedDevice | Fact::kDeviceLists;
  CHECK(select_path(lists) == Path::kLists);
  CHECK(select_path(lists | Fact::kNative) == Path::kLists);
  CHECK(select_path(lists | Fact::kListsAreLonger) == Path::kHostCodecs);
  CHECK(select_path(lists | Fact::kLevels) == Path::kHostCodecs);
  CHECK(select_path(kDevice | Fact::kCompressed | Fact::kDeviceLists) == Path::kHostCodecs);
}

TEST_CASE("path: codecs that a device lacks are the host's") {
  CHECK(select_path(kCompressedDevice) == Path::kHostCodecs);
  CHECK(select_path(kCompressedDevice | Fact::kNative) == Path::kHostCodecs);
}

TEST_CASE("path: names are those of paths and timelines") {
  CHECK(path_name(Path::kLocal, {}) == "local");
  CHECK(path_name(Path::kNative, {.communicator = "shm"}) == "shm");
  CHECK(path_name(Path::kNative, {.communicator = "tcp", .device = "nccl"}) == "nccl");
  CHECK(path_name(Path::kAlgorithm, {.communicator = "tcp", .algorithm = "ring"}) ==
        "ring over tcp");
  CHECK(path_name(Path::kCompressed, {.communicator = "tcp"}) == "compressed over tcp");
  CHECK(path_name(Path::kCompressed, {.communicator = "tcp, shm inside hosts", .levels = true}) ==
        "tcp, shm inside hosts");
  CHECK(path_name(Path::kStaged, {.communicator = "shm"}) == "shm through host memory");
  CHECK(path_name(Path::kStaged, {}) == "host memory");
  CHECK(path_name(Path::kFrames, {.communicator = "tcp", .device = "nccl"}) == "nccl");
  CHECK(path_name(Path::kLists, {.communicator = "tcp"}) == "lists over tcp");
  CHECK(path_name(Path::kNone, {.communicator = "tcp"}).empty());
}

TEST_CASE("path: every row of the table can be reached, and has a line") {
  for (const PathRow& row : path_table()) CHECK(select_path(row.needs) == row.path);
  const auto lines = describe_paths();
  REQUIRE(lines.size() == path_table().size() + 1);
  CHECK(lines[0] ==
        "tensors  compressed  if                                         how they are moved");
  CHECK(lines[1] == "CPU      any         one rank                                   a copy");
  for (const PathRow& row : path_table()) CHECK_FALSE(row.when.empty());
}

TEST_CASE("levels: for host memory where they are there, wanted, and wires lead between hosts") {
  const LevelQuestion wanted{.has_levels = true, .has_transport = true, .automatic = true};
  CHECK(wants_levels(wanted));
  const auto changed = [&](auto change) {
    LevelQuestion question = wanted;
    change(question);
    return wants_levels(question);
  };
  CHECK_FALSE(changed([](auto& q) { q.has_levels = false; }));
  CHECK_FALSE(changed([](auto& q) { q.has_transport = false; }));
  CHECK_FALSE(changed([](auto& q) { q.automatic = false; }));
  CHECK_FALSE(changed([](auto& q) { q.algorithm = "ring"; }));
  CHECK(changed([](auto& q) { q.algorithm = "hierarchical"; }));
  CHECK(changed([](auto& q) {
    q.automatic = false;
    q.algorithm = "ring";
    q.deterministic = true;
  }));
}

TEST_CASE("levels: for device memory where asked for, or where nothing spans the hosts") {
  LevelQuestion question{.has_levels = true, .automatic = true};
  CHECK(wants_device_levels(question, false));
  CHECK_FALSE(wants_device_levels(question, true));
  question.algorithm = "hierarchical";
  CHECK(wants_device_levels(question, true));
  question.automatic = false;
  CHECK(wants_device_levels(question, true));
  question.algorithm = {};
  CHECK_FALSE(wants_device_levels(question, false));
  question = {.automatic = true, .algorithm = "hierarchical"};
  CHECK_FALSE(wants_device_levels(question, false));
}

TEST_CASE("compositions: communicators in communicators") {
  CompositionQuestion question{.facts = kWires, .whole = "tcp", .algorithm = "ring"};
  CHECK(describe_composition(question) == "tcp.ring");
  question.inside = "shm";
  CHECK(describe_composition(question) == "hierarchical(shm, tcp.ring)");
  question.codec = "int8";
  question.facts = kWires | Fact::kCompressed;
  CHECK(describe_composition(question) == "hierarchical(shm, compressed(tcp, int8))");
  question.facts = kCompressedDevice;
  CHECK(describe_composition(question) == "staged(hierarchical(shm, compressed(tcp, int8)))");
  question.facts = kDevice | Fact::kTransport;
  CHECK(describe_composition(question) == "staged(hierarchical(shm, tcp.ring))");
  question.device = "nccl";
  question.facts = kDevice | Fact::kNative;
  CHECK(describe_composition(question) == "nccl");
  question.facts = kCompressedDevice | Fact::kNative | Fact::kDeviceFrames;
  CHECK(describe_composition(question) == "compressed(nccl, int8)");
  CHECK(describe_composition({.facts = Fact::kNative | Fact::kPrefersNative, .whole = "shm"}) ==
        "shm");
  CHECK(describe_composition({.facts = static_cast<Facts>(Fact::kOneRank)}) == "local");
}

}  // namespace ronde
