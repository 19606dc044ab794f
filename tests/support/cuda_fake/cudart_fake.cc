#include "tests/support/cuda_fake/cudart_fake.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "tests/support/cuda_fake/host_block.h"
#include "tests/support/cuda_fake/streams.h"

namespace ronde::test::cuda_fake {
namespace {

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;  // until cudaGetLastError() is called

struct Event {
  std::shared_ptr<Point> point;  // of the last record; null: reached
  bool timed = false;
};

/// The failure that fail_next() asked for.
struct Failure {
  cudaError_t code;
  int calls;  // that succeed before
};

/// All state of the fake.
struct World {
  Mutex mutex;
  int devices RONDE_GUARDED_BY(mutex) = 2;
  int launched RONDE_GUARDED_BY(mutex) = 0;
  std::map<std::string, Failure> failures RONDE_GUARDED_BY(mutex);
  std::map<void*, int> memory RONDE_GUARDED_BY(mutex);  // and its device
  std::map<cudaStream_t, std::shared_ptr<Stream>> streams RONDE_GUARDED_BY(mutex);
  std::map<cudaEvent_t, Event> events RONDE_GUARDED_BY(mutex);
};

World& world() {
  static auto* made = new World();
  return *made;
}

/// The code that fail_next() asked for, or success.
cudaError_t planned(const char* name) {
  const MutexLock lock(world().mutex);
  const auto found = world().failures.find(name);
  if (found == world().failures.end() || found->second.calls-- > 0) return cudaSuccess;
  const cudaError_t code = found->second.code;
  world().failures.erase(found);
  return code;
}

/// Null is the default stream, which is made at its first use.
std::shared_ptr<Stream> find(cudaStream_t handle) {
  const MutexLock lock(world().mutex);
  std::shared_ptr<Stream>& stream = world().streams[handle];
  if (handle == nullptr && !stream) stream = std::make_shared<Stream>(0);
  return stream;
}

/// Waits for all streams of a device, as cudaFree does.
void finish_all(int device) {
  std::vector<std::shared_ptr<Stream>> all;
  {
    const MutexLock lock(world().mutex);
    for (const auto& [handle, stream] : world().streams) {
      if (stream && stream->device() == device) all.push_back(stream);
    }
  }
  for (const auto& stream : all) stream->mark()->wait();
}

cudaError_t allocate(const char* name, void** memory, std::size_t bytes) {
  if (const cudaError_t code = planned(name); code != cudaSuccess) return code;
  *memory = std::malloc(bytes == 0 ? 1 : bytes);
  std::memset(*memory, 0xee, bytes);  // nobody may rely on zeros
  const MutexLock lock(world().mutex);
  world().memory.emplace(*memory, current_device);
  return cudaSuccess;
}

cudaError_t release(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  int device = 0;
  {
    const MutexLock lock(world().mutex);
    const auto found = world().memory.extract(memory);
    if (found.empty()) return cudaErrorInvalidValue;
    device = found.mapped();
  }
  finish_all(device);
  std::free(memory);
  return cudaSuccess;
}

/// The stream of `handle`, where it is the current device's.
cudaError_t usable(const char* name, cudaStream_t handle, std::shared_ptr<Stream>& stream) {
  if (const cudaError_t code = planned(name); code != cudaSuccess) return code;
  stream = find(handle);
  const bool usable = stream && (handle == nullptr || stream->device() == current_device);
  return usable ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

cudaError_t queue(const char* name, cudaStream_t handle, std::function<void()> work) {
  std::shared_ptr<Stream> stream;
  if (const cudaError_t code = usable(name, handle, stream); code != cudaSuccess) return code;
  stream->enqueue(std::move(work));
  return cudaSuccess;
}

/// True if devices of all generations can launch it.
bool is_valid(const cuda::Grid& grid) {
  constexpr std::size_t kMaxBlocks = 0x7fffffff;
  constexpr std::size_t kMaxSharedBytes = std::size_t{48} << 10;
  return grid.blocks >= 1 && grid.blocks <= kMaxBlocks && grid.shared_bytes <= kMaxSharedBytes;
}

}  // namespace

void set_device_count(int count) {
  const MutexLock lock(world().mutex);
  world().devices = count;
}

void fail_next(const char* name, cudaError_t code, int calls) {
  const MutexLock lock(world().mutex);
  world().failures[name] = {code, calls};
}

void enqueue(cudaStream_t stream, std::function<void()> work) {
  find(stream)->enqueue(std::move(work));
}

struct Hold::State {
  std::shared_ptr<Point> released = std::make_shared<Point>();
};

Hold::Hold(cudaStream_t stream) : state_(new State) {
  enqueue(stream, [point = state_->released] { point->wait(); });
}

Hold::~Hold() {
  state_->released->reach();
  delete state_;
}

void finish(cudaStream_t stream) { find(stream)->mark()->wait(); }

int live_objects() {
  const MutexLock lock(world().mutex);
  int streams = 0;
  for (const auto& [handle, stream] : world().streams) streams += handle != nullptr && stream;
  return streams + static_cast<int>(world().memory.size() + world().events.size());
}

int launches() {
  const MutexLock lock(world().mutex);
  return world().launched;
}

}  // namespace ronde::test::cuda_fake

using namespace ronde::test::cuda_fake;
using ronde::MutexLock;

namespace ronde::cuda {

void enqueue_on_host(const Grid& grid, cudaStream_t stream, std::function<void()> kernel) {
  {
    const MutexLock lock(world().mutex);
    ++world().launched;
  }
  const cudaError_t code =
      is_valid(grid) ? queue("launch", stream, std::move(kernel)) : cudaErrorInvalidConfiguration;
  if (code != cudaSuccess) last_error = code;
}

}  // namespace ronde::cuda

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  if (const cudaError_t code = planned("cudaGetDeviceCount"); code != cudaSuccess) return code;
  const MutexLock lock(world().mutex);
  *count = world().devices;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = 11040;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "fake");
  properties->totalGlobalMem = std::size_t{2} << 30;
  properties->major = 9;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (const cudaError_t code = planned("cudaSetDevice"); code != cudaSuccess) return code;
  current_device = device;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
const char* cudaGetErrorName(cudaError_t code) {
  return code == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorOfTheFake";
}
const char* cudaGetErrorString(cudaError_t code) {
  return code == cudaErrorMemoryAllocation ? "out of memory" : "as planned";
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return allocate("cudaMalloc", memory, bytes);
}
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return allocate("cudaMallocHost", memory, bytes);
}
cudaError_t cudaFree(void* memory) { return release(memory); }
cudaError_t cudaFreeHost(void* memory) { return release(memory); }

cudaError_t cudaDeviceSynchronize() {
  finish_all(current_device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* handle, unsigned, int) {
  if (const auto code = planned("cudaStreamCreateWithPriority"); code != cudaSuccess) return code;
  auto stream = std::make_shared<Stream>(current_device);
  *handle = reinterpret_cast<cudaStream_t>(stream.get());
  const MutexLock lock(world().mutex);
  world().streams[*handle] = std::move(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  std::shared_ptr<Stream> ended;
  const MutexLock lock(world().mutex);
  const auto found = world().streams.extract(handle);
  if (found.empty()) return cudaErrorInvalidResourceHandle;
  ended = found.mapped();
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  if (const cudaError_t code = planned("cudaMemcpyAsync"); code != cudaSuccess) return code;
  find(stream)->enqueue([=] { std::memmove(to, from, bytes); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned flags) {
  static int next = 0;
  if (const auto code = planned("cudaEventCreateWithFlags"); code != cudaSuccess) return code;
  const MutexLock lock(world().mutex);
  *handle = reinterpret_cast<cudaEvent_t>(static_cast<std::uintptr_t>(++next));
  world().events[*handle] = {nullptr, (flags & cudaEventDisableTiming) == 0};
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  const MutexLock lock(world().mutex);
  return world().events.erase(handle) == 1 ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream) {
  std::shared_ptr<Stream> on;
  if (const cudaError_t code = usable("cudaEventRecord", stream, on); code != cudaSuccess) {
    return code;
  }
  auto point = on->mark();
  const MutexLock lock(world().mutex);
  world().events[handle].point = std::move(point);
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  if (const cudaError_t code = planned("cudaEventQuery"); code != cudaSuccess) return code;
  const MutexLock lock(world().mutex);
  const Event& event = world().events[handle];
  if (!event.point || event.point->reached()) return cudaSuccess;
  return last_error = cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  if (const cudaError_t code = planned("cudaEventElapsedTime"); code != cudaSuccess) return code;
  const MutexLock lock(world().mutex);
  const Event& from = world().events[start];
  const Event& to = world().events[end];
  if (!from.timed || !to.timed || !from.point || !to.point) return cudaErrorInvalidResourceHandle;
  if (!from.point->reached() || !to.point->reached()) return cudaErrorNotReady;
  *ms = static_cast<float>(ronde::to_ns(to.point->time() - from.point->time())) * 1e-6F;
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t handle, unsigned) {
  if (const cudaError_t code = planned("cudaStreamWaitEvent"); code != cudaSuccess) return code;
  std::shared_ptr<Point> point;
  {
    const MutexLock lock(world().mutex);
    point = world().events[handle].point;
  }
  if (point) find(stream)->enqueue([point] { point->wait(); });
  return cudaSuccess;
}

}  // extern "C"
