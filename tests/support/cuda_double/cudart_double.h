// A double of the CUDA runtime for tests on machines without a GPU; never installed. Host memory
// plays the device's, a thread plays each stream, and kernels run on the CPU. It defines the entry
// points that backends/cuda calls, with CUDA's own declarations.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace ronde::test::cuda_double {

/// How many devices there are, 2 at first. Threads: any, as all below.
void set_device_count(int count);

/// Makes the next call of the entry point `name`, or that after `calls` more, return `code` and do
/// nothing. "launch": a kernel's launch.
void fail_next(const char* name, cudaError_t code, int calls = 0);

/// Queues work on a stream, as a kernel launch would. It must not throw.
void enqueue(cudaStream_t stream, std::function<void()> work);

/// Holds a stream up while it lives: what is queued later waits.
class Hold {
 public:
  explicit Hold(cudaStream_t stream);
  ~Hold();
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  struct State;
  State* const state_;
};

/// Blocks until all that was queued on `stream` has run.
void finish(cudaStream_t stream);

/// Memory, streams and events that were made and not given back: tests require none at their end.
int live_objects();

/// How many kernels were launched so far.
int launches();

}  // namespace ronde::test::cuda_double
