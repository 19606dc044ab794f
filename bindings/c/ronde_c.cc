// The C API, over the runtime: converts structs and statuses, nothing else.
#include "bindings/c/ronde_c.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/c/current.h"
#include "bindings/exit_log/exit_log.h"
#include "bindings/runtime/groups/process_sets.h"
#include "bindings/runtime/operations.h"
#include "core/base/mutex.h"
#include "core/protocol/wire.h"

/// A counted reference to a runtime, as C sees it.
struct ronde_job {
  std::shared_ptr<ronde::Runtime> runtime;
};

namespace ronde {
namespace {

/// Microseconds for which a submission may work in its caller's thread.
constexpr std::int32_t kMostHelp = 1000;
/// More than any request can describe.
constexpr std::size_t kMostTensors = kMaxRequestBytes;
/// Ranks of the largest job.
constexpr std::size_t kMostSplits = std::numeric_limits<std::int32_t>::max();

/// The current job: the only pointer to it that outlives calls.
struct Current {
  Mutex mutex;
  std::shared_ptr<Runtime> runtime RONDE_GUARDED_BY(mutex);
  /// True for operations submitted since the last clear_blocked().
  std::shared_ptr<std::atomic<bool>> waits RONDE_GUARDED_BY(mutex) = waiting();

  static std::shared_ptr<std::atomic<bool>> waiting() {
    return std::make_shared<std::atomic<bool>>(true);
  }
};

/// Never destroyed: threads of a framework may ask while the process exits.
Current& current() {
  static auto* kept = new Current();
  return *kept;
}

void copy_text(char* target, std::size_t capacity, const std::string& text) {
  const std::size_t length = std::min(text.size(), capacity - 1);
  std::memcpy(target, text.data(), length);
  target[length] = '\0';
}

ronde_error to_c(const Status& status) {
  const FailedRank failed = status.failed_rank().value_or(FailedRank());
  ronde_error error{};
  error.code = static_cast<std::int32_t>(status.code());
  error.rank = failed.rank;
  error.pid = failed.pid;
  copy_text(error.host, sizeof error.host, failed.host);
  copy_text(error.text, sizeof error.text, with_exit(status).message());
  return error;
}

std::int32_t give(const Status& status, ronde_error* error) {
  if (error != nullptr) *error = to_c(status);
  return static_cast<std::int32_t>(status.code());
}

template <typename... Args>
Status invalid(fmt::format_string<Args...> format, Args&&... args) {
  return {Code::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...)};
}

/// The value as a C enumeration's, or an error naming it.
template <typename Enum>
Result<Enum> checked(std::int32_t value, int count, std::string_view what) {
  if (value >= 0 && value < count) return static_cast<Enum>(value);
  return invalid("{} {} is not known; allowed: 0 to {}", what, value, count - 1);
}

/// Errors: kInvalidArgument where `count` values cannot be at `values`.
template <typename Count>
Status check_list(const void* values, Count count, std::string_view what) {
  if (std::cmp_less(count, 0)) {
    return invalid("{}: a count of {}; allowed: 0 and above", what, count);
  }
  if (values != nullptr || count == 0) return {};
  return invalid("{}: {} values at a null pointer", what, count);
}

Status check_most(std::size_t count, std::size_t most, std::string_view what) {
  if (count <= most) return {};
  return invalid("ronde_submission: {} {}; allowed: 0 to {}", what, count, most);
}

Result<TensorMeta> to_meta(const ronde_tensor& tensor, std::size_t index) {
  const std::string what = fmt::format("ronde_tensor {}", index);
  RONDE_ASSIGN_OR_RETURN(const DType dtype,
                         checked<DType>(tensor.dtype, kDTypeCount, what + ": element type"));
  RONDE_RETURN_IF_ERROR(check_list(tensor.shape, tensor.dimensions, what + ": shape"));
  if (std::cmp_greater(tensor.dimensions, kMaxDimensions)) {
    return invalid("{}: {} dimensions; allowed: 0 to {}", what, tensor.dimensions, kMaxDimensions);
  }
  return TensorMeta{dtype, Shape(tensor.shape, tensor.shape + tensor.dimensions)};
}

/// Errors: kInvalidArgument where a result has no memory, and there is no function that gives it.
Status check_output(const ronde_submission& given, const TensorMeta& meta, std::size_t index,
                    Collective kind, bool is_root) {
  const BufferTraits& output = traits_of(kind).output;
  const bool writes = output.layout != BufferLayout::kNone && (is_root || !output.root_only);
  if (!writes || given.allocate != nullptr || given.tensors[index].out != nullptr) return {};
  if (std::count(meta.shape.begin(), meta.shape.end(), 0) > 0) return {};
  return invalid("ronde_tensor {}: out is null; give memory, or ronde_submission.allocate", index);
}

Status add_tensors(const ronde_submission& given, bool is_root, Submission& submission) {
  RONDE_RETURN_IF_ERROR(check_list(given.tensors, given.tensor_count, "ronde_submission: tensors"));
  RONDE_RETURN_IF_ERROR(check_most(given.tensor_count, kMostTensors, "tensor_count"));
  for (std::size_t i = 0; i < given.tensor_count; ++i) {
    const ronde_tensor& tensor = given.tensors[i];
    RONDE_ASSIGN_OR_RETURN(TensorMeta meta, to_meta(tensor, i));
    RONDE_RETURN_IF_ERROR(check_output(given, meta, i, submission.request.kind, is_root));
    submission.request.tensors.push_back(std::move(meta));
    submission.inputs.push_back(tensor.in);
    submission.outputs.push_back(tensor.out);
  }
  return {};
}

/// Has outputs without memory come from the caller's function.
void add_allocator(const ronde_submission& given, Submission& submission) {
  if (given.allocate == nullptr) return;
  submission.allocate = [allocate = given.allocate, context = given.context](
                            std::size_t index, const Shape& shape) -> Result<void*> {
    void* memory = allocate(context, index, shape.data(), static_cast<std::int32_t>(shape.size()));
    if (memory != nullptr) return memory;
    return Status(Code::kResourceExhausted, "the caller gave no memory for an output");
  };
}

void tell(ronde_done done, void* context, Operation& operation) {
  std::optional<ronde_error> error;
  if (!operation.status().ok()) error = to_c(operation.status());
  ronde_outcome outcome{};
  outcome.error = error ? &*error : nullptr;
  outcome.recv_splits = operation.recv_splits().data();
  outcome.recv_split_count = operation.recv_splits().size();
  outcome.last_joined = operation.last_joined();
  done(context, &outcome);
}

/// A submission of a caller of any version, with zeros for fields that it does not know.
Result<ronde_submission> in_full(const ronde_submission& given) {
  constexpr std::size_t kOldest = offsetof(ronde_submission, compression);
  if (given.struct_bytes < kOldest) {
    return invalid("ronde_submission: struct_bytes {}; allowed: from {}", given.struct_bytes,
                   kOldest);
  }
  ronde_submission full{};
  std::memcpy(&full, &given, std::min(given.struct_bytes, sizeof full));
  return full;
}

/// Sets what the request blocks, until clear_blocked().
Status add_blocks(std::int32_t blocks, Request& request) {
  RONDE_ASSIGN_OR_RETURN(request.blocks,
                         checked<BlocksUntilDone>(blocks, kBlocksUntilDoneCount, "blocks"));
  if (request.blocks == BlocksUntilDone::kNothing) return {};
  MutexLock lock(current().mutex);
  request.waits = current().waits;
  return {};
}

void clear_blocked() {
  MutexLock lock(current().mutex);
  current().waits->store(false, std::memory_order_release);
  current().waits = Current::waiting();
}

/// `rank`: this one's, of the job.
Result<Submission> to_submission(const ronde_submission& given, int rank) {
  if (given.done == nullptr) return invalid("ronde_submission: done is not set");
  Submission submission;
  Request& request = submission.request;
  RONDE_ASSIGN_OR_RETURN(request.kind,
                         checked<Collective>(given.collective, kCollectiveCount, "collective"));
  RONDE_ASSIGN_OR_RETURN(request.op, checked<ReduceOp>(given.op, kReduceOpCount, "reduce op"));
  RONDE_RETURN_IF_ERROR(add_tensors(given, given.root == rank, submission));
  request.name = given.name == nullptr ? "" : given.name;
  request.call_site = given.call_site == nullptr ? "" : given.call_site;
  request.root = given.root;
  request.prescale = given.prescale;
  request.postscale = given.postscale;
  if (given.weight != nullptr) request.weight = *given.weight;
  request.may_submit = given.may_submit;
  request.priority = given.priority;
  request.compression = given.compression == nullptr ? "" : given.compression;
  request.program = given.program == nullptr ? "" : given.program;
  RONDE_RETURN_IF_ERROR(add_blocks(given.blocks, request));
  submission.help = std::chrono::microseconds(std::clamp(given.help_microseconds, 0, kMostHelp));
  if (given.splits != nullptr) {
    RONDE_RETURN_IF_ERROR(check_most(given.split_count, kMostSplits, "split_count"));
    submission.splits.assign(given.splits, given.splits + given.split_count);
  }
  add_allocator(given, submission);
  submission.on_done = [done = given.done, context = given.context](Operation& operation) {
    tell(done, context, operation);
  };
  return submission;
}

ronde_job* current_job() {
  MutexLock lock(current().mutex);
  return current().runtime == nullptr ? nullptr : new ronde_job{current().runtime};
}

ronde_job* init(ronde_error* error) {
  const Result<Config> config = config_from(process_environment());
  if (!config.ok()) {
    give(config.status(), error);
    return nullptr;
  }
  Result<std::unique_ptr<Runtime>> runtime = Runtime::create(*config);
  give(runtime.status(), error);
  if (!runtime.ok()) return nullptr;
  set_current_runtime(std::move(runtime).value());
  return current_job();
}

void shut_down(ronde_job* job) {
  if (job == nullptr) return;
  {
    MutexLock lock(current().mutex);
    if (current().runtime == job->runtime) current().runtime = nullptr;
  }
  job->runtime->shutdown();
}

Status no_job() { return invalid("the job is a null pointer; init() and current() give one"); }

Status check_call(const ronde_job* job, const std::int32_t* ranks, std::int32_t count,
                  std::string_view what) {
  return job == nullptr ? no_job() : check_list(ranks, count, what);
}

std::int32_t set_ranks(const ronde_job* job, std::int32_t set, std::int32_t* ranks,
                       std::int32_t capacity, ronde_error* error) {
  const Status status = check_call(job, ranks, capacity, "set_ranks: ranks");
  const Result<std::vector<int>> found =
      status.ok() ? job->runtime->process_sets().ranks(set) : status;
  give(found.status(), error);
  if (!found.ok()) return -1;
  const std::size_t count = std::min(found->size(), static_cast<std::size_t>(capacity));
  std::copy_n(found->begin(), count, ranks);
  return static_cast<std::int32_t>(found->size());
}

std::int32_t add_set(ronde_job* job, const std::int32_t* ranks, std::int32_t count,
                     ronde_error* error) {
  const Status status = check_call(job, ranks, count, "add_set: ranks");
  const Result<SetId> set =
      status.ok() ? job->runtime->process_sets().add(std::vector<int>(ranks, ranks + count))
                  : status;
  give(set.status(), error);
  return set.ok() ? *set : -1;
}

std::int32_t remove_set(ronde_job* job, std::int32_t set, ronde_error* error) {
  if (job == nullptr) return give(no_job(), error);
  return give(job->runtime->process_sets().remove(set), error);
}

/// join has a call of its own, as it carries no tensors.
Status start(ronde_job* job, const ronde_submission& from) {
  RONDE_ASSIGN_OR_RETURN(const ronde_submission given, in_full(from));
  const std::shared_ptr<Runtime> runtime = job->runtime;  // `done` may release the job
  RONDE_ASSIGN_OR_RETURN(Submission submission, to_submission(given, runtime->rank()));
  if (submission.request.kind == Collective::kJoin) {
    return runtime->operations().join(given.set, std::move(submission.on_done)).status();
  }
  return runtime->operations().submit(given.set, std::move(submission)).status();
}

std::int32_t submit(ronde_job* job, const ronde_submission* submission, ronde_error* error) {
  if (job == nullptr) return give(no_job(), error);
  if (submission == nullptr) return give(invalid("submit: submission is a null pointer"), error);
  return give(start(job, *submission), error);
}

constexpr ronde_api kApi{
    RONDE_C_VERSION,
    init,
    current_job,
    [](ronde_job* job) { delete job; },
    shut_down,
    [](const ronde_job* job) -> std::int32_t { return job->runtime->rank(); },
    [](const ronde_job* job) -> std::int32_t { return job->runtime->size(); },
    [](const ronde_job* job) -> std::int32_t { return job->runtime->place().local_rank; },
    [](const ronde_job* job) -> std::int32_t { return job->runtime->place().local_size; },
    set_ranks,
    add_set,
    remove_set,
    submit,
    clear_blocked,
};

}  // namespace

void set_current_runtime(std::shared_ptr<Runtime> runtime) {
  MutexLock lock(current().mutex);
  current().runtime = std::move(runtime);
}

std::shared_ptr<Runtime> current_runtime() {
  MutexLock lock(current().mutex);
  return current().runtime;
}

}  // namespace ronde

const ronde_api* ronde_c_api(std::uint32_t version) {
  return version <= RONDE_C_VERSION ? &ronde::kApi : nullptr;
}
