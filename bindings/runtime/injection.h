// Faults that a user plants in a job, to rehearse what its checks tell and how it ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/engine/queues/operation.h"
#include "core/ports/communicator.h"
#include "core/ports/event_sink.h"
#include "ops/execution/sum_witness.h"

namespace ronde {

enum class FaultKind : std::uint8_t {
  kNan,    ///< NaN in place of an element of an operation's input.
  kFlip,   ///< One bit of a replica's tensor, or of an operation's result.
  kDrift,  ///< A replica's tensor is scaled after each step.
  kSum,    ///< The rank computes wrong sums of an operation's elements.
  kSlow,   ///< The rank sleeps before an operation.
  kKill,   ///< The rank ends by SIGKILL before an operation.
  kCut,    ///< The rank's TCP connections are shut down before an operation.
};

/// One fault of one rank.
struct Injection {
  FaultKind kind = FaultKind::kNan;
  int rank = -1;
  std::string tensor = {};  ///< A part of the name of an operation, or of a replica's tensor.
  std::uint64_t step = 1;   ///< From 1.
  std::size_t element = 0;
  int bit = -1;            ///< Of a flip, from the lowest; negative: a high one of the exponent.
  bool in_result = false;  ///< A flip in an operation's result.
  double factor = 1.001;   ///< Of a drift.
  double seconds = 0;      ///< Of a slow rank.
  int peer = -1;           ///< Of a cut: the rank at the other end; negative: all connections.
  std::string text = {};   ///< As the user has written it.
};

/// Reads faults, with ";" between them, such as "flip:rank=1,tensor=layer3.weight,step=20".
/// Errors: kInvalidArgument with what is allowed.
Result<std::vector<Injection>> parse_injections(std::string_view text);

/// RONDE_INJECT begins with it where `ronde run --inject` has set it.
inline constexpr std::string_view kAskedFor = "--inject ";

/// As parse_injections(), of RONDE_INJECT; none where that is empty.
/// Errors: also kInvalidArgument where `ronde run --inject` has not set it.
Result<std::vector<Injection>> asked_injections(std::string_view setting);

/// The ends of this process's connections with ranks of other hosts. Threads: any.
class PeerEnds {
 public:
  void add(int rank, int fd) RONDE_EXCLUDES(mutex_);
  /// True if the socket is connected with that rank.
  [[nodiscard]] bool has(int rank, int fd) const RONDE_EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  std::map<std::string, int> ranks_ RONDE_GUARDED_BY(mutex_);  // by the peer's address
};

/// One tensor of a replica, which faults may change.
struct ReplicaMemory {
  std::string_view name;
  std::string_view dtype;  ///< "float32"; a drift changes no other types than ranks can reduce.
  std::size_t element_bytes = 1;
  std::span<std::byte> data;
};

/// Plants the faults of one rank. Each one is logged when it is planted, and marked on the
/// timeline. Threads: any.
class Injector {
 public:
  struct Options {
    std::vector<Injection> faults;           ///< Of any rank.
    int rank = 0;                            ///< This one.
    std::function<std::uint64_t()> steps;    ///< Training steps that have been marked.
    const EventSwitch* events = nullptr;     ///< Outlives it; may be null.
    const ReduceKernels* kernels = nullptr;  ///< Outlives it.
    const PeerEnds* peers = nullptr;         ///< Outlives it; null: none is known.
    SumWitness* sums = nullptr;              ///< Outlives it; null: none is planted in sums.
  };
  explicit Injector(Options options);

  /// Plants what comes before an operation: in its input, or in this process. May sleep.
  void before(const Submission& submission) RONDE_EXCLUDES(mutex_);
  /// Lets this rank compute wrong sums of a work, until after() or after_failure().
  void during(const Bundle& bundle, const Work& work) RONDE_EXCLUDES(mutex_);
  /// Plants in the results of a work, before any check has seen them. Warns once of wrong sums that
  /// were asked for and did not come.
  void after(const Bundle& bundle, const Work& work) RONDE_EXCLUDES(mutex_);
  /// Ends what during() began, of a work without results.
  void after_failure(const Bundle& bundle, const Work& work) RONDE_EXCLUDES(mutex_);

  /// The names of the tensors that are to be changed after a step of the optimizer.
  [[nodiscard]] std::vector<std::string> replica_tensors(std::uint64_t step) const
      RONDE_EXCLUDES(mutex_);
  /// Plants in a tensor after this step, if it is the first that is meant. True if it has changed.
  bool plant_in(const ReplicaMemory& memory, std::uint64_t step) RONDE_EXCLUDES(mutex_);

  /// Warns of faults whose tensor or step never came. Call it once, at the end.
  void report_unplanted() const RONDE_EXCLUDES(mutex_);

 private:
  struct Fault {
    Injection what;
    bool planted = false;
    bool begun = false;           // of wrong sums: during() let them come
    bool warned = false;          // of wrong sums: none came
    std::uint64_t last_step = 0;  // of a replica, in which it was planted
  };

  void act(const Injection& what);
  void heal(const Bundle& bundle, const Work& work) RONDE_REQUIRES(mutex_);
  void warn_of_right_sums(const Bundle& bundle) RONDE_REQUIRES(mutex_);
  void note(Fault& fault, std::string_view where) RONDE_REQUIRES(mutex_);

  const Options options_;
  mutable Mutex mutex_;
  std::vector<Fault> faults_ RONDE_GUARDED_BY(mutex_);
};

}  // namespace ronde
