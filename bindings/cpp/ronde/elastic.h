// Elastic jobs: training goes on when ranks die, leave and join. Start programs by
// `ronde run -np 4 --min-np 2`. See examples/07_elastic.cc and docs/elastic.md.
//
//   auto job = ronde::init();
//   std::vector<float> weights(1000);
//   std::int64_t step = 0;
//   ronde::elastic::State state(job);
//   state.add("weights", ronde::tensor(weights));
//   state.add("step", step);
//   const bool finished = ronde::elastic::run(state, [&] {
//     while (step < 1000) {
//       train_one_step(job, weights);  // allreduces gradients
//       ++step;
//       state.commit();
//     }
//   });
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "ronde/error.h"
#include "ronde/ronde.h"
#include "ronde/tensor.h"

namespace ronde::elastic {

/// Workers wait to join, or are to leave. commit() and check_host_updates() throw it, on all ranks
/// in the same call; run() then goes on with the new ranks. It is no ronde::Error: a loop that
/// catches those does not catch this.
class RONDE_API HostsUpdated : public std::exception {
 public:
  explicit HostsUpdated(bool only_removed) : only_removed_(only_removed) {}
  [[nodiscard]] const char* what() const noexcept override { return "the job's workers change"; }
  /// True if no worker joins: then nobody needs the state from others.
  [[nodiscard]] bool only_removed() const noexcept { return only_removed_; }

 private:
  bool only_removed_;
};

/// The launcher is gone, so that no epoch can follow this one.
class RONDE_API LauncherLost : public Error {
 public:
  explicit LauncherLost(const std::string& message) : Error(Code::kUnavailable, message) {}
};

/// The launcher has ended the job, which failed.
class RONDE_API JobFailed : public Error {
 public:
  explicit JobFailed(const std::string& message) : Error(Code::kAborted, message) {}
};

/// The ranks that have a part of the state.
enum class Owner : std::uint8_t {
  kJob,   ///< All ranks have the same: those that join get it by broadcast.
  kRank,  ///< Each rank has its own: copied and restored, but never sent. A worker that replaces
          ///< one that died on its host goes on with the other's, if that is of the committed step.
};

/// A number, an enumerator or a plain struct; no pointer, and no view of other memory.
template <typename T>
concept SmallValue = std::is_trivially_copyable_v<T> && !std::is_const_v<T> &&
                     !std::is_pointer_v<T> && !requires(T & value) {
  value.data();
};

/// Deals each index of a data set to exactly one rank, once an epoch. Add it to a state; call
/// record_batch() after each batch, and commit. The first ranks may have one index more than
/// others: a rank that has none left calls Job::join_async(), and all call State::sync() then.
/// Threads: one.
class RONDE_API ExactSampler {
 public:
  /// seed: the same on all ranks. `job` outlives the sampler, at the same address. Throws
  /// InvalidArgument for a length below 0.
  ExactSampler(Job& job, std::int64_t length, bool shuffled = true, std::uint64_t seed = 0);

  /// This rank's part of what remains of the epoch, dealt to the ranks that there are now.
  [[nodiscard]] std::vector<std::int64_t> indices() const;
  /// Records that all ranks have finished a batch of this size, or a shorter one at the end. Throws
  /// InvalidArgument below 1.
  void record_batch(std::int64_t batch_size);
  /// True once all ranks have finished the epoch's batches.
  [[nodiscard]] bool done() const noexcept { return position_.processed == length_; }
  [[nodiscard]] std::int64_t epoch() const noexcept { return position_.epoch; }
  /// Begins this epoch, with all indices in another order.
  void set_epoch(std::int64_t epoch) noexcept { position_ = {epoch, 0}; }

 private:
  friend class State;
  struct Position {
    std::int64_t epoch = 0;
    std::int64_t processed = 0;
  };

  Job& job_;
  std::int64_t length_;
  bool shuffled_;
  std::uint64_t seed_;
  Position position_;  // the same on all ranks
};

/// Own parts (Owner::kRank) of a worker that is gone.
class RONDE_API Orphan {
 public:
  explicit Orphan(std::map<std::string, std::vector<std::byte>> parts) : parts_(std::move(parts)) {}

  /// The elements of a part. Throws InvalidArgument if there is no such part.
  template <typename T>
  [[nodiscard]] std::vector<T> values(const std::string& name) const {
    const std::vector<std::byte>& bytes = bytes_of(name);
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
    return values;
  }

 private:
  [[nodiscard]] const std::vector<std::byte>& bytes_of(const std::string& name) const;

  std::map<std::string, std::vector<std::byte>> parts_;
};

/// How State::checkpoint() writes.
struct CheckpointOptions {
  int every = 1;             ///< Each so many commits.
  int keep = 2;              ///< So many of the newest stay.
  bool needs_whole = false;  ///< run() throws JobFailed if there are files, but none is whole.
};

/// The parts of a program's memory that training needs to go on, and two committed copies of them.
/// A commit copies all parts. Step k is committed once all ranks have finished their copies of it.
/// Threads: one at a time, the one that calls run().
class RONDE_API State {
 public:
  /// `job` outlives the state, at the same address.
  explicit State(Job& job);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// Adds a tensor under a name of its own: host memory, written in place, of any dtype and shape,
  /// both the same on all ranks. The memory must stay where it is while the state lives. Throws
  /// InvalidArgument for other tensors, and once there is a copy.
  void add(const std::string& name, const Tensor& tensor, Owner owner = Owner::kJob);
  /// Adds a value.
  template <SmallValue T>
  void add(const std::string& name, T& value, Owner owner = Owner::kJob) {
    auto* const bytes = reinterpret_cast<std::uint8_t*>(&value);
    add(name, ronde::tensor(bytes, {static_cast<std::int64_t>(sizeof(T))}), owner);
  }
  /// Adds a sampler's position.
  void add(const std::string& name, ExactSampler& sampler) { add(name, sampler.position_); }
  /// From now on a partner on another host keeps a copy of this rank's own parts (Owner::kRank), as
  /// of each `every`-th commit. A worker that takes the place of one that is gone goes on with its
  /// own parts. Throws InvalidArgument below 1.
  void set_redundancy(int every = 1);
  /// Calls `callback` with the own parts of a worker that is gone and that nobody replaces: on one
  /// rank, at the start of an epoch.
  void on_orphan(std::function<void(const Orphan&)> callback);
  /// From now on rank 0 writes commits to files, in the background. run() begins with the newest
  /// whole one of any rank. path: their names without the last parts, the number of commits. Own
  /// parts are not in them.
  /// Call it before run(). Throws InvalidArgument for other options.
  void checkpoint(const std::string& path, const CheckpointOptions& options = {});
  /// Calls `callback` after each change of ranks, before sync(): on ranks that were there before,
  /// with the new rank() and size() of the job.
  void on_reset(std::function<void()> callback);

  /// Copies all parts, then acts on changes of the job. When it returns on one rank, all ranks have
  /// finished their copies. Blocks until then. Collective. Throws HostsUpdated; RankFailure and
  /// other errors of operations; LauncherLost.
  void commit();
  /// Acts on changes of the job without a copy. Collective; throws as commit().
  void check_host_updates();
  /// Gives all parts the values of the newest copy; nothing before the first one.
  void restore();
  /// Gives all ranks the parts of one of them, then copies. Collective. Throws errors of
  /// operations.
  void sync();
  /// The number of the newest copy; it grows with each commit() and sync().
  [[nodiscard]] std::int64_t step() const noexcept;

  class Impl;
  /// Used by run().
  [[nodiscard]] Impl& impl() noexcept { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// Calls train() until it has returned on all ranks, through failures and changes of ranks.
///
/// When a rank has died, operations of the others throw. They restore the newest committed step,
/// join the launcher's next epoch, call the reset callbacks and sync(), then train() again. When
/// ranks are to join or to leave, commit() throws HostsUpdated; the same happens without restoring.
/// Ranks that join begin with sync(). The job given to the state is that of the new epoch then: its
/// rank and size change. Process sets stay as long as all their workers are left; a call on another
/// set throws InvalidArgument. A worker that has joined finds them by add_process_set().
///
/// SIGTERM makes this worker leave at its next commit; RONDE_LEAVE_SIGNAL (TERM, USR1, off) chooses
/// the signal. Buffers of operations under way must outlive an exception: declare them outside of
/// train().
///
/// Returns true once train() has returned. Returns false if this worker has left the job before:
/// the program should end with status 0. Blocks. Call no collective between init() and run():
/// workers that join would wait for ranks that are in it already.
/// Errors: those that would come again in the next epoch, such as Mismatch and InvalidArgument;
/// LauncherLost; JobFailed; exceptions of train() that are not Ronde's. Without a launcher of
/// elastic jobs all errors, unless the job has one rank.
[[nodiscard]] RONDE_API bool run(State& state, const std::function<void()>& train);

}  // namespace ronde::elastic
