// NCCL's entry points, found at run time. Machines without NCCL can load this module too. A process
// in which PyTorch has loaded NCCL shares that one.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <string>

#include "core/base/status.h"

namespace ronde::nccl {

/// The oldest supported NCCL: the first that makes communicators without blocking.
inline constexpr int kOldestVersion = 21800;

/// The entry points that Ronde calls; tests pass fakes.
struct Api {
  decltype(&ncclGetVersion) get_version;
  decltype(&ncclGetErrorString) get_error_string;
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRankConfig) comm_init_rank_config;
  decltype(&ncclCommGetAsyncError) comm_get_async_error;
  decltype(&ncclCommFinalize) comm_finalize;
  decltype(&ncclCommDestroy) comm_destroy;
  decltype(&ncclCommAbort) comm_abort;
  decltype(&ncclRedOpCreatePreMulSum) red_op_create_pre_mul_sum;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclReduce) reduce;
  decltype(&ncclBroadcast) broadcast;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclReduceScatter) reduce_scatter;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) recv;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  // Null before NCCL 2.19; its header may be older than that, too.
  ncclResult_t (*comm_register)(ncclComm_t, void*, std::size_t, void**);
  ncclResult_t (*comm_deregister)(ncclComm_t, void*);
  ncclResult_t (*mem_alloc)(void**, std::size_t);
  ncclResult_t (*mem_free)(void*);

  /// True where memory can be registered.
  [[nodiscard]] bool registers() const noexcept {
    return comm_register != nullptr && comm_deregister != nullptr && mem_alloc != nullptr &&
           mem_free != nullptr;
  }
};

/// Finds NCCL: the one that the process has loaded, else where the linker looks. Never unloaded.
/// Errors: kUnavailable "NCCL not found: ...", kVersionMismatch naming version and what is allowed.
Result<Api> load_api(const std::string& file = "libnccl.so.2");

/// Ok, or kVersionMismatch.
Status check_version(const Api& api);

/// Ok, or kUnavailable: "ncclAllReduce: unhandled cuda error".
Status status_of(const Api& api, ncclResult_t code, const char* call);

}  // namespace ronde::nccl
