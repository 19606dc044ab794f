// Opens groups. Rank 0 makes the memory, and the others find it through /proc. Each rank reserves
// the pages that it writes. All agree on whether that worked, so that every rank has this data
// plane or none.
#include "backends/shm/factory.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backends/shm/collectives/direct.h"
#include "backends/shm/group.h"
#include "backends/shm/memory/arena.h"
#include "backends/shm/memory/layout.h"
#include "backends/shm/memory/memory.h"
#include "backends/shm/memory/reach.h"
#include "core/base/mutex.h"
#include "core/base/wire_codec.h"

namespace ronde {
namespace shm {
namespace {

constexpr SpinLimit kSpin{50};
/// Staging moves bytes twice and synchronises more. By measurement the kernel's copies are faster
/// if one costs less than this many of memcpy. The Xeon with AVX-512 is below it, the EPYC 7003 (4)
/// above.
constexpr double kMostCopyCost = 2.5;
constexpr int kMaxRanks = 256;  // rings grow with the square: 150 MB in all at this number

/// The offer of a rank to the others, which run the same build on the same host.
struct Offer {
  std::uint64_t nonce = 0;
  pid_t pid = 0;
  int fd = -1;
  int arena_fd = -1;
  std::uintptr_t arena = 0;  ///< Where it is in that process.
  std::uint64_t arena_bytes = 0;
  std::uint64_t* probe = nullptr;  ///< Holds probed_value; to be read and written from outside.
  std::uint64_t probed_value = 0;
  bool always = false;    ///< Wants single copy for tensors of any size.
  bool checks = false;    ///< Wants checksums.
  bool pays = false;      ///< Single copy is worth it on this machine.
  bool sees_all = false;  ///< Reads and writes the memory of all ranks,
  bool maps_all = false;  ///< and has mapped the arenas of all.
  cpu_set_t cores{};
  std::string error;  ///< Empty where all went well.

  static void fields(auto& wire, auto& self) {
    wire(self.nonce, self.pid, self.fd, self.arena_fd, self.arena, self.arena_bytes);
    wire.object(self.probe);
    wire(self.probed_value, self.always, self.checks, self.pays, self.sees_all, self.maps_all);
    wire.object(self.cores);
    wire(self.error);
  }
};

/// Exchanges offers; fails where any rank has an error, the same on all ranks.
Result<std::vector<Offer>> agree(Exchange& exchange, const Status& status, Offer mine) {
  mine.error = status.message();
  RONDE_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                         exchange.allgather(encode_wire<std::string>(mine)));
  std::vector<Offer> offers;
  for (const std::string& bytes : all) {
    auto theirs = decode_wire<Offer>(as_bytes(bytes), "offer of shared memory");
    if (!theirs.ok()) return Status(Code::kUnavailable, theirs.status().message());
    offers.push_back(std::move(*theirs));
    if (offers.back().error.empty()) continue;
    return Status(Code::kUnavailable,
                  fmt::format("rank {} of the group: {}", offers.size() - 1, offers.back().error));
  }
  return offers;
}

std::uint64_t random_nonce() {
  std::random_device source;
  return std::uint64_t{source()} << 32 | source();
}

/// The memory of a group while it is being set up on this rank.
class Setup {
 public:
  explicit Setup(int ranks) : layout_(ranks) {}

  /// Rank 0: makes the memory and fills in where it is.
  Status create(Offer& mine) {
    RONDE_ASSIGN_OR_RETURN(memory_, create_memory(layout_.total_bytes()));
    RONDE_RETURN_IF_ERROR(reserve_memory(memory_, 0, layout_.common_bytes()));
    RONDE_ASSIGN_OR_RETURN(mapping_, map_memory(memory_, layout_.total_bytes()));
    mine.nonce = random_nonce();
    mine.fd = memory_.get();
    layout_.header(mapping_.data()).nonce = mine.nonce;
    return {};
  }

  /// The others: opens what rank 0 offers.
  Status open(const Offer& creator) {
    RONDE_ASSIGN_OR_RETURN(memory_, open_memory(creator.pid, creator.fd, layout_.total_bytes()));
    RONDE_ASSIGN_OR_RETURN(mapping_, map_memory(memory_, layout_.total_bytes()));
    if (layout_.header(mapping_.data()).nonce == creator.nonce) return {};
    return Status(Code::kUnavailable, "shared memory: another group's, in another pid namespace");
  }

  /// Reserves the pages that this rank writes, on the NUMA node where it runs.
  Status reserve(int rank) {
    for (const Stretch& own : layout_.written_by(rank)) {
      RONDE_RETURN_IF_ERROR(reserve_memory(memory_, own.offset, own.bytes));
    }
    return {};
  }

  Mapping take() { return std::move(mapping_); }

 private:
  Layout layout_;
  FileDescriptor memory_;
  Mapping mapping_;
};

/// Spinning pays only if every rank of this host can have a core of its own. Ranks that are bound
/// to different cores count themselves. Otherwise all ranks of the host share the cores.
SpinLimit spin_limit(const GroupSpec& group, const std::vector<Offer>& all) {
  cpu_set_t together = all.front().cores;
  bool alike = true;
  for (const Offer& each : all) {
    alike = alike && CPU_EQUAL(&each.cores, &all.front().cores);
    CPU_OR(&together, &together, &each.cores);
  }
  const auto on_host = static_cast<int>(group.topology->host_ranks(group.ranks.front()).size());
  const int ranks = alike ? on_host : group.size();
  return ranks <= CPU_COUNT(&together) ? kSpin : SpinLimit::zero();
}

bool sees(const Offer& theirs) {
  std::uint64_t value = 0;
  return theirs.probe != nullptr && can_read(theirs.pid, theirs.probe, &value, sizeof value) &&
         value == theirs.probed_value && can_write(theirs.pid, &value, theirs.probe, sizeof value);
}

/// Maps the arenas of all ranks; empty where one has none or hides it.
std::vector<std::shared_ptr<ArenaView>> view_arenas(const std::vector<Offer>& all) {
  std::vector<std::shared_ptr<ArenaView>> views;
  for (const Offer& each : all) {
    if (each.arena_fd < 0) return {};
    const auto memory = open_memory(each.pid, each.arena_fd, each.arena_bytes);
    if (!memory.ok()) return {};
    auto mapping = map_memory(*memory, each.arena_bytes);
    if (!mapping.ok()) return {};
    views.push_back(std::make_shared<ArenaView>(each.arena, std::move(*mapping)));
  }
  return views;
}

class ShmBackend final : public Backend {
 public:
  ShmBackend(std::shared_ptr<const ReduceKernels> kernels, ShmOptions options)
      : kernels_(std::move(kernels)), options_(options) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "shm"; }

  Status viable(const GroupSpec& group) override {
    if (!group.on_one_host()) {
      return Status(Code::kUnavailable, "shared memory: the ranks are on more than one host");
    }
    if (group.size() <= kMaxRanks) return {};
    return Status(Code::kUnavailable,
                  fmt::format("shared memory: {} ranks are more than {}", group.size(), kMaxRanks));
  }

  std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    const auto own = arena();
    return own == nullptr ? nullptr : own->allocate(bytes);
  }

  Result<std::unique_ptr<Communicator>> open(const GroupSpec& group, Exchange& exchange) override {
    Setup setup(group.size());
    std::uint64_t probed = random_nonce();
    Offer mine = offer(probed);
    const Status created = group.rank == 0 ? setup.create(mine) : Status();
    RONDE_ASSIGN_OR_RETURN(const std::vector<Offer> all, agree(exchange, created, mine));
    Status opened = group.rank == 0 ? Status() : setup.open(all.front());
    if (opened.ok()) opened = setup.reserve(group.rank);
    Reach reach;
    for (const Offer& each : all) reach.pids.push_back(each.pid);
    reach.arenas = view_arenas(all);
    mine.sees_all = std::all_of(all.begin(), all.end(), sees);
    mine.maps_all = !reach.arenas.empty();
    RONDE_ASSIGN_OR_RETURN(const std::vector<Offer> seen, agree(exchange, opened, mine));
    restrict(reach, seen);
    return std::unique_ptr<Communicator>(std::make_unique<ShmGroup>(
        setup.take(), group, spin_limit(group, all), std::move(reach), arena(), kernels_));
  }

 private:
  /// This rank's offer. The others read `probed` until all have agreed once more.
  Offer offer(std::uint64_t& probed) {
    Offer mine;
    mine.pid = getpid();
    sched_getaffinity(0, sizeof mine.cores, &mine.cores);
    mine.checks = options_.checksums;
    mine.always = options_.single_copy == SingleCopy::kAlways;
    if (options_.single_copy != SingleCopy::kNever) {
      mine.probe = &probed;
      mine.probed_value = probed;
      mine.pays = mine.always || kernel_copy_cost() < kMostCopyCost;
    }
    if (const auto own = arena()) {
      mine.arena_fd = own->fd();
      mine.arena = reinterpret_cast<std::uintptr_t>(own->base());
      mine.arena_bytes = own->bytes();
    }
    return mine;
  }

  /// Keeps the ways of access that work for all ranks.
  static void restrict(Reach& reach, const std::vector<Offer>& all) {
    const auto all_have = [&](bool Offer::*what) {
      return std::all_of(all.begin(), all.end(), [&](const auto& each) { return each.*what; });
    };
    reach.by_kernel = all_have(&Offer::sees_all);
    reach.always = all_have(&Offer::always);
    reach.kernel_pays = all_have(&Offer::pays);
    reach.checks = all_have(&Offer::checks);
    if (!all_have(&Offer::maps_all)) reach.arenas.clear();
  }

  /// This process's arena, made when first asked for; null where that is impossible or unwanted.
  std::shared_ptr<Arena> arena() RONDE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (arena_ == nullptr && options_.arenas) {
      if (auto made = Arena::create(); made.ok()) arena_ = std::move(*made);
    }
    return arena_;
  }

  const std::shared_ptr<const ReduceKernels> kernels_;
  const ShmOptions options_;
  Mutex mutex_;
  std::shared_ptr<Arena> arena_ RONDE_GUARDED_BY(mutex_);
};

}  // namespace
}  // namespace shm

std::unique_ptr<Backend> create_shm_backend(std::shared_ptr<const ReduceKernels> kernels,
                                            ShmOptions options) {
  return std::make_unique<shm::ShmBackend>(std::move(kernels), options);
}

}  // namespace ronde
