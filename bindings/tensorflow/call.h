// One execution of a kernel: its submissions, and the end when the last of them has ended.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "job.h"

namespace ronde::tensorflow {

using ::tensorflow::AsyncOpKernel;
using ::tensorflow::CancellationManager;
using ::tensorflow::CancellationToken;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;

/// The facts that all executions of one node share.
struct Description {
  ronde_collective kind = RONDE_BARRIER;
  std::vector<std::string> names;
  std::string site;
  std::int32_t set = 0;
  std::int32_t op = RONDE_SUM;
  std::int32_t root = -1;
  double prescale = 1;
  double postscale = 1;
  bool weighted = false;  // the last input is this rank's weight
  std::string compression;
  std::vector<std::int32_t> priorities;  // one for each name, or none
  std::int64_t program = 0;              // see program.h
};

/// Lives from the kernel's start until all its submissions have ended; TensorFlow's `done` is
/// called then, or before by abandon_all().
class Call {
 public:
  /// Submits everything; deletes itself, and calls `done`, once all of it has ended. Blocks: never.
  static void start(const Description& what, OpKernelContext* context,
                    AsyncOpKernel::DoneCallback done);
  /// Ends all calls that have submitted everything, for TensorFlow, with `status`; the submissions
  /// go on, with the memory they need. Threads: any.
  static void abandon_all(const absl::Status& status);
  /// The number of calls that TensorFlow waits for. Threads: any.
  static std::int32_t count();
  /// Ends one call so, if it is still there and goes by this number.
  static void abandon(Call* call, std::uint64_t number, const absl::Status& status);

 private:
  /// One submission: some of the kernel's inputs.
  struct Part {
    Call* call = nullptr;
    std::string name;
    std::size_t first = 0;
    std::vector<ronde_tensor> tensors;
    std::vector<std::vector<std::int64_t>> shapes;
  };

  Call(const Description& what, OpKernelContext* context, AsyncOpKernel::DoneCallback done);
  ~Call();
  absl::Status prepare();
  /// The first input is a tensor, the others are the submission's splits.
  [[nodiscard]] bool has_numbers() const {
    return kind_ == RONDE_ALLTOALL || kind_ == RONDE_SPARSE_ALLREDUCE;
  }
  absl::Status add_tensor(Part& part, int index);
  void submit(Part& part);
  /// The operations that the process submits only after the end of this one.
  [[nodiscard]] ronde_blocks blocks() const;
  /// The time in microseconds that submit() may wait for the other ranks.
  [[nodiscard]] std::int32_t help_time() const;
  /// Ends the call when TensorFlow cancels the step, as it does after an error in another kernel:
  /// where ranks disagree, operations are left that no other rank submits.
  void end_when_cancelled();
  /// Notes the end of one part, and ends all with the last.
  void finish(const absl::Status& status);
  /// Takes leave of TensorFlow: what is to be called then, or nothing where it has been before.
  AsyncOpKernel::DoneCallback leave(const absl::Status& status);
  absl::Status take_results(const ronde_outcome& outcome);
  void* allocate(std::size_t index, const std::int64_t* shape, std::int32_t dimensions);

  const Description& what_;
  const AsyncOpKernel::DoneCallback done_;
  const ronde_collective kind_ = what_.kind;  // the description may go with the kernel
  const std::uint64_t number_;                // no other call of the process has it
  JobPtr job_ = current_job();
  const std::string site_ = what_.site;
  const std::string compression_ = what_.compression;
  const std::string program_ = program_text(what_.program, what_.set);
  std::vector<Part> parts_;
  std::vector<std::int64_t> splits_;
  double weight_ = 0;
  std::atomic<std::size_t> unfinished_;
  std::atomic<bool> submitted_{false};
  std::mutex mutex_;          // guards the rest, as parts may end in several threads
  OpKernelContext* context_;  // null once TensorFlow has been left
  CancellationToken token_ = CancellationManager::kInvalidToken;
  std::vector<Tensor> kept_;  // the memory that submissions use
  absl::Status status_;       // the first error
};

}  // namespace ronde::tensorflow
