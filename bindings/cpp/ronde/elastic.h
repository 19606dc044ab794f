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
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>

#include "core/base/export.h"
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

/// Who has a part of the state.
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
  /// Adds a value likewise.
  template <SmallValue T>
  void add(const std::string& name, T& value, Owner owner = Owner::kJob) {
    auto* const bytes = reinterpret_cast<std::uint8_t*>(&value);
    add(name, ronde::tensor(bytes, {static_cast<std::int64_t>(sizeof(T))}), owner);
  }
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
  /// For run().
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
