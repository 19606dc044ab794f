// A fake CUDA runtime, for tests on machines without a GPU. Device memory is host memory, each
// stream is a thread, and the product's kernels run on the CPU. It defines the entry points that
// backends/cuda calls, as CUDA declares them. Never installed.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace ronde::test::cuda_fake {

/// Sets the number of devices, 2 at first. Threads: any, here and below.
void set_device_count(int count);

/// Makes a call of the entry point `name` fail with `code`: the next one, or the one after `calls`
/// more. "launch": a kernel's launch.
void fail_next(const char* name, cudaError_t code, int calls = 0);

/// Queues work on a stream, as a kernel launch would. It must not throw.
void enqueue(cudaStream_t stream, std::function<void()> work);

/// Blocks a stream during its lifetime: work queued later waits.
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

/// The number of allocations, streams and events that exist. Tests require 0 at their end.
int live_objects();

/// The number of kernels launched so far, failed launches included.
int launches();

}  // namespace ronde::test::cuda_fake
