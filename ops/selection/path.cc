#include "ops/selection/path.h"

#include <fmt/format.h>

#include <array>

#include "ops/selection/selector.h"

namespace ronde {
namespace {

constexpr Facts only(Fact fact) noexcept { return static_cast<Facts>(fact); }

constexpr std::array kPaths{
    // Host memory.
    PathRow{Path::kLocal, only(Fact::kOneRank), only(Fact::kOnDevice)},
    PathRow{Path::kNative, Fact::kNative | Fact::kPrefersNative,
            Fact::kOnDevice | Fact::kCompressed},
    PathRow{Path::kCompressed, Fact::kCompressed | Fact::kTransport, only(Fact::kOnDevice)},
    PathRow{Path::kAlgorithm, only(Fact::kTransport), only(Fact::kOnDevice)},
    // Compressed allreduces in device memory.
    PathRow{Path::kLists,
            Fact::kOnDevice | Fact::kCompressed | Fact::kDeviceLists | Fact::kTransport,
            Fact::kOneRank | Fact::kLevels | Fact::kListsAreLonger},
    PathRow{Path::kFrames,
            Fact::kOnDevice | Fact::kCompressed | Fact::kDeviceFrames | Fact::kNative,
            Fact::kOneRank | Fact::kNoLaunchOrder},
    PathRow{Path::kStagedFrames, Fact::kOnDevice | Fact::kCompressed | Fact::kDeviceFrames,
            Fact::kOneRank | Fact::kLevels},
    PathRow{Path::kHostCodecs, Fact::kOnDevice | Fact::kCompressed, only(Fact::kOneRank)},
    // Everything else in device memory.
    PathRow{Path::kNative, Fact::kOnDevice | Fact::kNative, only(Fact::kNoLaunchOrder)},
    PathRow{Path::kStaged, only(Fact::kOnDevice), 0},
};

constexpr std::array<std::string_view, 11> kFactNames{"one rank",
                                                      "device memory",
                                                      "compressed",
                                                      "own collective",
                                                      "that is preferred",
                                                      "a transport",
                                                      "two levels",
                                                      "device frames",
                                                      "device lists",
                                                      "lists longer than tensors",
                                                      "no order of launches"};

constexpr std::string_view name_of(Path path) noexcept {
  constexpr std::array<std::string_view, 10> kNames{"none",
                                                    "local",
                                                    "native",
                                                    "algorithm over the transport",
                                                    "compressed by the CPU",
                                                    "staged through the host",
                                                    "frames by the device's communicator",
                                                    "frames through the host",
                                                    "lists over the host's transport",
                                                    "brought to the host, compressed there"};
  return kNames[static_cast<std::size_t>(path)];
}

std::string names_of(Facts facts) {
  std::string text;
  for (std::size_t i = 0; i < kFactNames.size(); ++i) {
    if ((facts >> i & 1U) != 0)
      text += fmt::format("{}{}", text.empty() ? "" : ", ", kFactNames[i]);
  }
  return text;
}

/// A dense collective of the host.
std::string dense(const CompositionQuestion& question) {
  return question.algorithm.empty() ? std::string(question.whole)
                                    : fmt::format("{}.{}", question.whole, question.algorithm);
}

std::string compressed(std::string_view over, std::string_view codec) {
  return fmt::format("compressed({}, {})", over, codec);
}

/// A collective of the host, with what lies between hosts in its place.
std::string in_levels(const CompositionQuestion& question, const std::string& between) {
  return question.inside.empty() ? between
                                 : fmt::format("hierarchical({}, {})", question.inside, between);
}

}  // namespace

std::span<const PathRow> path_table() noexcept { return kPaths; }

Path select_path(Facts facts) noexcept {
  for (const PathRow& row : kPaths) {
    if ((facts & row.needs) == row.needs && (facts & row.excludes) == 0) return row.path;
  }
  return Path::kNone;
}

std::vector<std::string> describe_paths() {
  std::vector<std::string> lines;
  for (const PathRow& row : kPaths) {
    const std::string excludes = names_of(row.excludes);
    lines.push_back(fmt::format("{}{}{}: {}", names_of(row.needs), excludes.empty() ? "" : "; not ",
                                excludes, name_of(row.path)));
  }
  return lines;
}

std::string path_name(Path path, const PathNames& names) {
  switch (path) {
    case Path::kLocal:
      return "local";
    case Path::kNative:
      return std::string(names.device.empty() ? names.communicator : names.device);
    case Path::kAlgorithm:
      return fmt::format("{} over {}", names.algorithm, names.communicator);
    case Path::kCompressed:
      return names.levels ? std::string(names.communicator)
                          : fmt::format("compressed over {}", names.communicator);
    case Path::kStaged:
    case Path::kStagedFrames:
      return names.communicator.empty() ? "host memory"
                                        : fmt::format("{} through host memory", names.communicator);
    case Path::kFrames:
      return std::string(names.device);
    case Path::kLists:
      return fmt::format("lists over {}", names.communicator);
    default:
      return {};
  }
}

bool wants_levels(const LevelQuestion& question) noexcept {
  if (!question.has_levels || !question.has_transport) return false;
  return question.deterministic || question.algorithm == kHierarchicalAlgorithm ||
         (question.algorithm.empty() && question.automatic);
}

bool wants_device_levels(const LevelQuestion& question, bool spans) noexcept {
  if (!question.has_levels) return false;
  return question.algorithm == kHierarchicalAlgorithm || (!spans && question.automatic);
}

std::string describe_composition(const CompositionQuestion& question) {
  const std::string codecs = in_levels(question, compressed(question.whole, question.codec));
  switch (select_path(question.facts)) {
    case Path::kLocal:
      return "local";
    case Path::kNative:
      return question.device.empty() ? in_levels(question, dense(question))
                                     : std::string(question.device);
    case Path::kAlgorithm:
      return in_levels(question, dense(question));
    case Path::kCompressed:
      return codecs;
    case Path::kStaged:
      return fmt::format("staged({})", in_levels(question, dense(question)));
    case Path::kFrames:
      return compressed(question.device, question.codec);
    case Path::kStagedFrames:
      return compressed(fmt::format("staged({})", dense(question)), question.codec);
    case Path::kLists:
      return compressed(question.whole, question.codec);
    case Path::kHostCodecs:
      return fmt::format("staged({})", codecs);
    default:
      return {};
  }
}

}  // namespace ronde
