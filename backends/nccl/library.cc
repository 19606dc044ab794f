#include "backends/nccl/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace ronde::nccl {
namespace {

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

/// Sets function pointers by their names; keeps the missing names.
class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}
  template <typename Function>
  void find(const char* name, Function& function) {
    find_optional(name, function);
    if (function == nullptr && missing_.empty()) missing_ = name;
  }
  template <typename Function>
  void find_optional(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
  }
  [[nodiscard]] const std::string& missing() const noexcept { return missing_; }

 private:
  void* const library_;
  std::string missing_;
};

Api find_all(Symbols& symbols) {
  Api api{};
  symbols.find("ncclGetVersion", api.get_version);
  symbols.find("ncclGetErrorString", api.get_error_string);
  symbols.find("ncclGetUniqueId", api.get_unique_id);
  symbols.find("ncclCommInitRankConfig", api.comm_init_rank_config);
  symbols.find("ncclCommGetAsyncError", api.comm_get_async_error);
  symbols.find("ncclCommFinalize", api.comm_finalize);
  symbols.find("ncclCommDestroy", api.comm_destroy);
  symbols.find("ncclCommAbort", api.comm_abort);
  symbols.find("ncclRedOpCreatePreMulSum", api.red_op_create_pre_mul_sum);
  symbols.find("ncclAllReduce", api.all_reduce);
  symbols.find("ncclReduce", api.reduce);
  symbols.find("ncclBroadcast", api.broadcast);
  symbols.find("ncclAllGather", api.all_gather);
  symbols.find("ncclReduceScatter", api.reduce_scatter);
  symbols.find("ncclSend", api.send);
  symbols.find("ncclRecv", api.recv);
  symbols.find("ncclGroupStart", api.group_start);
  symbols.find("ncclGroupEnd", api.group_end);
  symbols.find_optional("ncclCommRegister", api.comm_register);
  symbols.find_optional("ncclCommDeregister", api.comm_deregister);
  symbols.find_optional("ncclMemAlloc", api.mem_alloc);
  symbols.find_optional("ncclMemFree", api.mem_free);
  return api;
}

}  // namespace

Result<Api> load_api(const std::string& file) {
  constexpr int kFlags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
  void* library = dlopen(file.c_str(), kFlags | RTLD_NOLOAD);
  if (library == nullptr) library = dlopen(file.c_str(), kFlags);
  if (library == nullptr) {
    const char* const reason = dlerror();  // NOLINT(concurrency-mt-unsafe): per thread in glibc
    return Status(Code::kUnavailable,
                  fmt::format("NCCL not found: {}; pip install nvidia-nccl-cu13", reason));
  }
  Symbols symbols(library);
  const Api api = find_all(symbols);
  if (!symbols.missing().empty()) {
    return Status(Code::kVersionMismatch,
                  fmt::format("{} has no {}: NCCL {} or newer is needed", file, symbols.missing(),
                              version_text(kOldestVersion)));
  }
  RONDE_RETURN_IF_ERROR(check_version(api));
  return api;
}

Status check_version(const Api& api) {
  int version = 0;
  RONDE_RETURN_IF_ERROR(status_of(api, api.get_version(&version), "ncclGetVersion"));
  if (version >= kOldestVersion) return {};
  return {Code::kVersionMismatch, fmt::format("NCCL {} is too old: {} or newer is needed",
                                              version_text(version), version_text(kOldestVersion))};
}

Status status_of(const Api& api, ncclResult_t code, const char* call) {
  if (code == ncclSuccess) return {};
  return {Code::kUnavailable, fmt::format("{}: {}", call, api.get_error_string(code))};
}

}  // namespace ronde::nccl
