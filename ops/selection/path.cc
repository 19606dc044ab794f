#include "ops/selection/path.h"

#include <fmt/format.h>

#include <array>

#include "ops/selection/selector.h"

namespace ronde {
namespace {

constexpr Facts only(Fact fact) noexcept { return static_cast<Facts>(fact); }

constexpr std::array kPaths{
    // Host memory.
    PathRow{Path::kLocal, only(Fact::kOneRank), only(Fact::kOnDevice), "one rank", "a copy"},
    PathRow{Path::kNative, Fact::kNative | Fact::kPrefersNative,
            Fact::kOnDevice | Fact::kCompressed, "the data plane has the collective, as shm",
            "the data plane's own collective"},
    PathRow{Path::kCompressed, Fact::kCompressed | Fact::kTransport, only(Fact::kOnDevice), "any",
            "compressed by the CPU"},
    PathRow{Path::kAlgorithm, only(Fact::kTransport), only(Fact::kOnDevice),
            "other data planes, as tcp", "an algorithm of the table above"},
    // Compressed allreduces in device memory.
    PathRow{Path::kLists,
            Fact::kOnDevice | Fact::kCompressed | Fact::kDeviceLists | Fact::kTransport,
            Fact::kOneRank | Fact::kLevels | Fact::kListsAreLonger,
            "top-k runs on the GPU, and saves bytes", "top-k on the GPU, sent through the host"},
    PathRow{Path::kFrames,
            Fact::kOnDevice | Fact::kCompressed | Fact::kDeviceFrames | Fact::kNative,
            Fact::kOneRank | Fact::kNoLaunchOrder, "the codec runs on the GPU; with NCCL",
            "compressed on the GPU, sent by NCCL"},
    PathRow{Path::kStagedFrames, Fact::kOnDevice | Fact::kCompressed | Fact::kDeviceFrames,
            Fact::kOneRank | Fact::kLevels, "the codec runs on the GPU; without NCCL",
            "compressed on the GPU, sent through the host"},
    PathRow{Path::kHostCodecs, Fact::kOnDevice | Fact::kCompressed, only(Fact::kOneRank),
            "other codecs", "copied to the host, compressed there"},
    // Everything else in device memory.
    PathRow{Path::kNative, Fact::kOnDevice | Fact::kNative, only(Fact::kNoLaunchOrder), "with NCCL",
            "NCCL"},
    PathRow{Path::kStaged, only(Fact::kOnDevice), 0, "without NCCL", "through the host's memory"},
};

constexpr bool has(Facts facts, Fact fact) noexcept {
  return (facts & static_cast<Facts>(fact)) != 0;
}

constexpr std::string_view kColumns = "{:<7}  {:<10}  {:<41}  {}";

std::string describe_row(const PathRow& row) {
  const char* compressed = has(row.needs, Fact::kCompressed) ? "yes" : "no";
  if (row.path == Path::kLocal) compressed = "any";
  return fmt::format(kColumns, has(row.needs, Fact::kOnDevice) ? "GPU" : "CPU", compressed,
                     row.when, row.how);
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
  std::vector<std::string> lines{
      fmt::format(kColumns, "tensors", "compressed", "if", "how they are moved")};
  for (const PathRow& row : kPaths) lines.push_back(describe_row(row));
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
