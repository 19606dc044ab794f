#include "tests/support/cuda_fake/nccl_fake.h"

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "ops/kernels/factory.h"
#include "tests/support/cuda_fake/cudart_fake.h"

namespace ronde::test::cuda_fake {
namespace {

enum class What { kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter, kSend, kRecv };

/// One call of a collective as it was made.
struct Call {
  What what;
  const std::byte* in;
  std::byte* out;
  std::size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  int peer;  // or root
};
using Calls = std::vector<Call>;

/// The ranks of one communicator. Threads: any.
class Clique {
 public:
  explicit Clique(int size) : calls_(static_cast<std::size_t>(size)) {}

  /// Blocks until all ranks are here; false where one has aborted.
  bool meet() RONDE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (aborted_) return false;  // work that a rank queued behind the abort
    const int round = round_;
    if (++waiting_ == static_cast<int>(calls_.size())) {
      waiting_ = 0;
      ++round_;
      changed_.notify_all();
    }
    while (round == round_ && !aborted_) changed_.wait(mutex_);
    return round != round_;
  }
  void abort() RONDE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    aborted_ = true;
    changed_.notify_all();
  }
  void join() RONDE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    ++joined_;
  }
  [[nodiscard]] bool complete() RONDE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return joined_ == static_cast<int>(calls_.size());
  }
  /// A rank's calls of this round. Other ranks read them between two calls of meet().
  Calls& calls(int rank) { return calls_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int size() const { return static_cast<int>(calls_.size()); }

 private:
  Mutex mutex_;
  CondVar changed_;
  int waiting_ RONDE_GUARDED_BY(mutex_) = 0;
  int round_ RONDE_GUARDED_BY(mutex_) = 0;
  int joined_ RONDE_GUARDED_BY(mutex_) = 0;
  bool aborted_ RONDE_GUARDED_BY(mutex_) = false;
  std::vector<Calls> calls_;  // each written by its rank, before a meeting
};

struct Communicator {
  std::shared_ptr<Clique> clique;
  int rank;
  Mutex* device;                // held by what runs on the device
  std::vector<double> factors;  // of the scaled sums made, from ncclNumOps on
  std::set<void*> registered;
};

struct World {
  Mutex mutex;
  std::map<int, std::shared_ptr<Clique>> cliques RONDE_GUARDED_BY(mutex);
  std::map<int, Mutex> devices RONDE_GUARDED_BY(mutex);
  int ids RONDE_GUARDED_BY(mutex) = 0;
  std::atomic<int> version{23003};
  std::atomic<int> largest{1 << 20};
  std::atomic<int> ended{0};
  std::atomic<int> registrations{0};
  std::atomic<int> wrong{0};
  std::atomic<ncclResult_t> register_code{ncclSuccess};
  std::set<void*> in_use RONDE_GUARDED_BY(mutex);  // registered memory
  std::atomic<int> async_error{ncclSuccess};
  std::atomic<int> live{0};
  std::atomic<int> aborted{0};
};

World& world() {
  static auto* const kWorld = new World();
  return *kWorld;
}

// Calls gathered between ncclGroupStart and ncclGroupEnd by this thread.
thread_local int group_depth = 0;
thread_local Calls grouped;
thread_local Communicator* grouped_communicator = nullptr;
thread_local cudaStream_t grouped_stream = nullptr;

Communicator* of(ncclComm_t handle) { return reinterpret_cast<Communicator*>(handle); }

DType dtype_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return DType::kInt8;
    case ncclInt32:
      return DType::kInt32;
    case ncclInt64:
      return DType::kInt64;
    case ncclUint32:
      return DType::kUint32;
    case ncclUint64:
      return DType::kUint64;
    case ncclFloat16:
      return DType::kFloat16;
    case ncclBfloat16:
      return DType::kBfloat16;
    case ncclFloat32:
      return DType::kFloat32;
    case ncclFloat64:
      return DType::kFloat64;
    default:
      return DType::kUint8;
  }
}

Reduction reduction_of(const Communicator& self, const Call& call) {
  constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMax, ReduceOp::kMin};
  const DType dtype = dtype_of(call.type);
  if (call.op < ncclNumOps) return {dtype, kOps[call.op], {}};
  return {dtype, ReduceOp::kSum, {self.factors[static_cast<std::size_t>(call.op - ncclNumOps)], 1}};
}

/// The n-th of a rank's calls that is a `what` to `peer`.
const Call* matching(const Calls& calls, What what, int peer, std::size_t n) {
  for (const Call& call : calls) {
    if (call.what == what && call.peer == peer && n-- == 0) return &call;
  }
  return nullptr;
}

/// A rank's result of call number `index` of a group, before any rank writes.
std::vector<std::byte> result_of(const Communicator& self, std::size_t index) {
  Clique& clique = *self.clique;
  const Call& mine = clique.calls(self.rank)[index];
  const std::size_t bytes = mine.count * size_of(dtype_of(mine.type));
  const auto copied = [](const std::byte* from, std::size_t n) {
    return std::vector<std::byte>(from, from + n);
  };
  const auto reduced = [&](std::size_t skipped) {
    std::vector<const void*> inputs;
    inputs.reserve(static_cast<std::size_t>(clique.size()));
    for (int r = 0; r < clique.size(); ++r) inputs.push_back(clique.calls(r)[index].in + skipped);
    std::vector<std::byte> made(bytes);
    create_kernels()->reduce(reduction_of(self, mine), inputs, made.data(), mine.count);
    return made;
  };
  switch (mine.what) {
    case What::kAllReduce:
      return reduced(0);
    case What::kReduce:
      return mine.peer == self.rank ? reduced(0) : std::vector<std::byte>();
    case What::kReduceScatter:
      return reduced(bytes * static_cast<std::size_t>(self.rank));
    case What::kBroadcast:
      return copied(clique.calls(mine.peer)[index].in, bytes);
    case What::kAllGather: {
      std::vector<std::byte> made;
      for (int r = 0; r < clique.size(); ++r) {
        const auto* in = clique.calls(r)[index].in;
        made.insert(made.end(), in, in + bytes);
      }
      return made;
    }
    case What::kRecv: {
      std::size_t before = 0;
      for (std::size_t i = 0; i < index; ++i) {
        const Call& earlier = clique.calls(self.rank)[i];
        before += earlier.what == What::kRecv && earlier.peer == mine.peer;
      }
      const Call* sent = matching(clique.calls(mine.peer), What::kSend, self.rank, before);
      return sent == nullptr ? std::vector<std::byte>() : copied(sent->in, bytes);
    }
    default:
      return {};
  }
}

/// A kernel of NCCL: waits for all ranks, reads, waits, writes. It keeps its device busy.
void run(const Communicator& self, const Calls& calls) {
  const MutexLock occupied(*self.device);
  const std::shared_ptr<Clique> clique = self.clique;
  clique->calls(self.rank) = calls;
  if (!clique->meet()) return;
  std::vector<std::vector<std::byte>> results;
  for (std::size_t i = 0; i < calls.size(); ++i) results.push_back(result_of(self, i));
  if (!clique->meet()) return;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!results[i].empty()) std::memcpy(calls[i].out, results[i].data(), results[i].size());
  }
  ++world().ended;
  (void)clique->meet();
}

void launch(Communicator* self, Calls calls, cudaStream_t stream) {
  enqueue(stream, [copy = *self, calls = std::move(calls)] { run(copy, calls); });
}

ncclResult_t call(ncclComm_t handle, const Call& made, cudaStream_t stream) {
  if (group_depth == 0) {
    launch(of(handle), {made}, stream);
    return ncclSuccess;
  }
  grouped.push_back(made);
  grouped_communicator = of(handle);
  grouped_stream = stream;
  return ncclSuccess;
}

const std::byte* bytes_of(const void* memory) { return static_cast<const std::byte*>(memory); }
std::byte* bytes_of(void* memory) { return static_cast<std::byte*>(memory); }

ncclResult_t get_unique_id(ncclUniqueId* id) {
  *id = {};
  const MutexLock lock(world().mutex);
  const int number = ++world().ids;
  std::memcpy(id->internal, &number, sizeof(number));
  return ncclSuccess;
}

ncclResult_t init(ncclComm_t* handle, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidArgument;  // the backend must never block in here
  if (size > world().largest) return ncclSystemError;
  int number = 0;
  std::memcpy(&number, id.internal, sizeof(number));
  const MutexLock lock(world().mutex);
  std::shared_ptr<Clique>& clique = world().cliques[number];
  if (!clique) clique = std::make_shared<Clique>(size);
  clique->join();
  int device = 0;
  (void)cudaGetDevice(&device);
  *handle = reinterpret_cast<ncclComm_t>(
      new Communicator{clique, rank, &world().devices[device], {}, {}});
  ++world().live;
  return ncclInProgress;
}

ncclResult_t get_async_error(ncclComm_t handle, ncclResult_t* code) {
  *code = static_cast<ncclResult_t>(world().async_error.load());
  if (*code == ncclSuccess && !of(handle)->clique->complete()) *code = ncclInProgress;
  return ncclSuccess;
}

ncclResult_t end(ncclComm_t handle) {
  delete of(handle);
  --world().live;
  return ncclSuccess;
}

ncclResult_t destroy(ncclComm_t handle) {
  world().wrong += static_cast<int>(of(handle)->registered.size());
  return end(handle);
}

ncclResult_t abort(ncclComm_t handle) {
  of(handle)->clique->abort();
  ++world().aborted;
  {
    const MutexLock lock(world().mutex);  // it ends the registrations itself
    for (void* memory : of(handle)->registered) world().in_use.erase(memory);
  }
  return end(handle);
}

ncclResult_t register_memory(ncclComm_t handle, void* memory, std::size_t, void** registration) {
  if (world().register_code != ncclSuccess) return world().register_code;
  *registration = memory;
  of(handle)->registered.insert(memory);
  const MutexLock lock(world().mutex);
  ++world().registrations;
  world().in_use.insert(memory);
  return ncclSuccess;
}

ncclResult_t deregister_memory(ncclComm_t handle, void* registration) {
  world().wrong += of(handle)->registered.erase(registration) == 1 ? 0 : 1;
  const MutexLock lock(world().mutex);
  world().in_use.erase(registration);
  return ncclSuccess;
}

ncclResult_t give_memory(void** memory, std::size_t bytes) {
  return cudaMalloc(memory, bytes) == cudaSuccess ? ncclSuccess : ncclSystemError;
}

ncclResult_t take_memory(void* memory) {
  {
    const MutexLock lock(world().mutex);
    world().wrong += static_cast<int>(world().in_use.erase(memory));
  }
  return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t scaled_sum(ncclRedOp_t* op, void* scalar, ncclDataType_t type, ncclScalarResidence_t,
                        ncclComm_t handle) {
  double factor = 0;
  create_kernels()->cast(dtype_of(type), scalar, DType::kFloat64, &factor, 1);
  std::vector<double>& factors = of(handle)->factors;
  *op = static_cast<ncclRedOp_t>(ncclNumOps + static_cast<int>(factors.size()));
  factors.push_back(factor);
  return ncclSuccess;
}

ncclResult_t group_end() {
  if (--group_depth > 0) return ncclSuccess;
  if (!grouped.empty()) launch(grouped_communicator, std::move(grouped), grouped_stream);
  grouped.clear();
  return ncclSuccess;
}

}  // namespace

nccl::Api nccl_fake() {
  nccl::Api api{};
  api.get_version = [](int* version) {
    *version = world().version;
    return ncclSuccess;
  };
  api.get_error_string = [](ncclResult_t) { return "as planned"; };
  api.get_unique_id = &get_unique_id;
  api.comm_init_rank_config = &init;
  api.comm_get_async_error = &get_async_error;
  api.comm_finalize = [](ncclComm_t) { return ncclSuccess; };
  api.comm_destroy = &destroy;
  api.comm_abort = &abort;
  api.red_op_create_pre_mul_sum = &scaled_sum;
  api.all_reduce = [](const void* in, void* out, std::size_t count, ncclDataType_t type,
                      ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    return call(comm, {What::kAllReduce, bytes_of(in), bytes_of(out), count, type, op, 0}, stream);
  };
  api.reduce = [](const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                  int root, ncclComm_t comm, cudaStream_t stream) {
    return call(comm, {What::kReduce, bytes_of(in), bytes_of(out), count, type, op, root}, stream);
  };
  api.broadcast = [](const void* in, void* out, std::size_t count, ncclDataType_t type, int root,
                     ncclComm_t comm, cudaStream_t stream) {
    return call(comm, {What::kBroadcast, bytes_of(in), bytes_of(out), count, type, ncclSum, root},
                stream);
  };
  api.all_gather = [](const void* in, void* out, std::size_t count, ncclDataType_t type,
                      ncclComm_t comm, cudaStream_t stream) {
    return call(comm, {What::kAllGather, bytes_of(in), bytes_of(out), count, type, ncclSum, 0},
                stream);
  };
  api.reduce_scatter = [](const void* in, void* out, std::size_t count, ncclDataType_t type,
                          ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    return call(comm, {What::kReduceScatter, bytes_of(in), bytes_of(out), count, type, op, 0},
                stream);
  };
  api.send = [](const void* in, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                cudaStream_t stream) {
    return call(comm, {What::kSend, bytes_of(in), nullptr, count, type, ncclSum, peer}, stream);
  };
  api.recv = [](void* out, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                cudaStream_t stream) {
    return call(comm, {What::kRecv, nullptr, bytes_of(out), count, type, ncclSum, peer}, stream);
  };
  api.group_start = [] {
    ++group_depth;
    return ncclSuccess;
  };
  api.group_end = &group_end;
  api.comm_register = &register_memory;
  api.comm_deregister = &deregister_memory;
  api.mem_alloc = &give_memory;
  api.mem_free = &take_memory;
  return api;
}

void set_nccl_version(int version) { world().version = version; }
void set_nccl_register_code(ncclResult_t code) { world().register_code = code; }
int nccl_registrations() { return world().registrations; }
int nccl_wrong_registrations() { return world().wrong; }
void set_nccl_largest(int ranks) { world().largest = ranks; }
int ended_collectives() { return world().ended; }
void set_nccl_async_error(ncclResult_t code) { world().async_error = code; }
int live_communicators() { return world().live; }
int aborted_communicators() { return world().aborted; }

}  // namespace ronde::test::cuda_fake
