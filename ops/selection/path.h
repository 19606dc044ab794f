// The path of work: one table over facts that are the same on all ranks. It covers native and
// compressed collectives, algorithms, staging and two levels; algorithms have their own table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ronde {

/// How work moves.
enum class Path : std::uint8_t {
  kNone,          ///< None: nothing has run yet, or nothing here can do the work.
  kLocal,         ///< Copies: the group has one rank.
  kNative,        ///< The communicator's own collective.
  kAlgorithm,     ///< An algorithm of ops/ over the transport.
  kCompressed,    ///< Codecs of the CPU: over the transport, or between hosts alone.
  kStaged,        ///< Device memory through the host's communicator.
  kFrames,        ///< Codecs of the device; frames by the device's communicator.
  kStagedFrames,  ///< Codecs of the device; frames through the host.
  kLists,         ///< Top-k on the device; lists over the host's transport.
  kHostCodecs,    ///< Tensors of a device are brought to the host and compressed there.
};

/// One fact, a bit. A question is a sum of facts.
enum class Fact : std::uint32_t {
  kOneRank = 1U << 0U,
  kOnDevice = 1U << 1U,        ///< The tensors are in device memory.
  kCompressed = 1U << 2U,      ///< The bundle is to be compressed.
  kNative = 1U << 3U,          ///< The communicator for that memory does the work itself.
  kPrefersNative = 1U << 4U,   ///< That is its fastest way, or the user's choice, or the only way.
  kTransport = 1U << 5U,       ///< The host's communicator has point-to-point.
  kLevels = 1U << 6U,          ///< The host's communicator has two levels.
  kDeviceFrames = 1U << 7U,    ///< The device has kernels for the codec's frames,
  kDeviceLists = 1U << 8U,     ///< or for its top-k.
  kListsAreLonger = 1U << 9U,  ///< This rank's lists are longer than its tensors.
  kNoLaunchOrder = 1U << 10U,  ///< Ranks no longer agree on an order of launches.
};
using Facts = std::uint32_t;

constexpr Facts operator|(Fact a, Fact b) noexcept {
  return static_cast<Facts>(static_cast<Facts>(a) | static_cast<Facts>(b));
}
constexpr Facts operator|(Facts a, Fact b) noexcept {
  return static_cast<Facts>(a | static_cast<Facts>(b));
}
/// `fact` where it holds, else nothing.
constexpr Facts when(bool holds, Fact fact) noexcept {
  return holds ? static_cast<Facts>(fact) : Facts{0};
}

/// One row: `path` for work that has all facts of `needs` and none of `excludes`.
struct PathRow {
  Path path = Path::kNone;
  Facts needs = 0;
  Facts excludes = 0;
  std::string_view when = {};  ///< The facts beside the kind of memory and compression, for people.
  std::string_view how = {};   ///< The path, for people.
};

/// The table: the first row that fits wins.
std::span<const PathRow> path_table() noexcept;

/// The path for these facts; kNone where no row fits. Threads: any. Allocates nothing.
Path select_path(Facts facts) noexcept;

/// The table as lines for people, in columns under a head: "CPU  yes  any  compressed by the CPU".
std::vector<std::string> describe_paths();

/// The parts of a composition, as they are called.
struct PathNames {
  std::string_view communicator = {};  ///< For host memory: "shm", "tcp, shm inside hosts".
  std::string_view device = {};        ///< For device memory: "nccl".
  std::string_view algorithm = {};     ///< "ring"; kAlgorithm only.
  bool levels = false;                 ///< The host's communicator has two levels.
};

/// A path as last_path() and timelines show it: "shm", "ring over tcp", "local".
std::string path_name(Path path, const PathNames& names);

/// How far apart the ranks of a group are, and what the user asked for.
struct LevelQuestion {
  bool has_levels = false;     ///< Several hosts, and one of them has several ranks.
  bool has_transport = false;  ///< The communicator between hosts has point-to-point.
  bool automatic = false;      ///< The user leaves the choice of a backend to Ronde.
  bool deterministic = false;
  std::string_view algorithm = {};  ///< The user's override, or empty.
};

/// True if work in host memory uses two levels: a communicator inside hosts, one between them.
/// Always true in deterministic mode: one order of addition for all backends, inside hosts first.
bool wants_levels(const LevelQuestion& question) noexcept;

/// True if allreduces in device memory use two levels: on request, or if the choice is Ronde's and
/// no communicator of devices `spans` all ranks.
bool wants_device_levels(const LevelQuestion& question, bool spans) noexcept;

/// One operation, and what serves it.
struct CompositionQuestion {
  Facts facts = 0;
  std::string_view inside = {};     ///< Inside hosts, where there are levels: "shm".
  std::string_view whole = {};      ///< Among all ranks, or between hosts: "tcp".
  std::string_view algorithm = {};  ///< Over the transport of `whole`: "ring".
  std::string_view device = {};     ///< Between devices: "nccl".
  std::string_view codec = {};      ///< "int8".
};

/// The communicators that serve it, one in another: "hierarchical(shm, compressed(tcp, int8))".
std::string describe_composition(const CompositionQuestion& question);

}  // namespace ronde
