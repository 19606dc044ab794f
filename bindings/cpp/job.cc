// Job and Pending: the negotiated half of the C++ API, over the runtime.
#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "bindings/cpp/elastic_worker.h"
#include "bindings/cpp/internal.h"
#include "bindings/runtime/groups/group_factory.h"
#include "bindings/runtime/groups/process_sets.h"
#include "bindings/runtime/operations.h"
#include "bindings/runtime/runtime.h"
#include "bindings/runtime/timeline.h"
#include "core/protocol/request.h"
#include "ops/compression/residuals.h"
#include "ronde/ronde.h"

namespace ronde {

class Pending::Impl {
 public:
  Impl(std::shared_ptr<Runtime> the_runtime, OperationPtr the_operation)
      : runtime(std::move(the_runtime)), operation(std::move(the_operation)) {}
  ~Impl() {
    if (received != nullptr) *received = {message.source, message.tag, message.bytes};
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Status wait(TimePoint deadline) {
    WaitOptions options;
    options.deadline = deadline;
    Operations& operations = runtime->operations();
    Status status = operations.wait(operation, options);
    if (status.ok()) status = operations.order_after(operation, operation->submission().stream);
    if (operation->done() && received != nullptr) {
      *received = {message.source, message.tag, message.bytes};
      received = nullptr;
    }
    return status;
  }

  const std::shared_ptr<Runtime> runtime;
  OperationPtr operation;
  Message message;
  Received* received = nullptr;
};

namespace {

/// Notes the tensor's device. If a submission's tensors are on several, no rank gets a result.
void place(Submission& submission, const Tensor& tensor) {
  Device& device = submission.request.device;
  const Device mine =
      tensor.cuda_device < 0 ? Device{} : Device{DeviceKind::kCuda, tensor.cuda_device};
  if (submission.inputs.empty()) {
    device = mine;
    submission.stream = tensor.cuda_stream;
  } else if (device != mine) {
    device.kind = kSeveralDevices;
  }
}

Submission make_submission(Collective kind, std::string_view name, std::span<const Tensor> tensors,
                           CallSite site) {
  Submission submission;
  submission.request.kind = kind;
  submission.request.name = name;
  submission.request.call_site = fmt::format("{}:{}", site.file, site.line);
  for (const Tensor& tensor : tensors) {
    place(submission, tensor);
    submission.request.tensors.push_back({tensor.dtype, tensor.shape});
    submission.inputs.push_back(tensor.in);
    submission.outputs.push_back(tensor.out);
  }
  return submission;
}

/// Of one tensor or several that are reduced.
Submission reducing(Collective kind, std::string_view name, std::span<const Tensor> tensors,
                    const ReduceOptions& options, CallSite site) {
  Submission submission = make_submission(kind, name, tensors, site);
  Request& request = submission.request;
  request.op = options.op;
  request.prescale = options.prescale;
  request.postscale = options.postscale;
  request.priority = options.priority;
  request.compression = options.compression;
  request.weight = options.weight;
  return submission;
}

/// Of a tensor that is only moved. root: -1 where the kind has none.
Submission moving(Collective kind, std::string_view name, const Tensor& tensor, int root,
                  const MoveOptions& options, CallSite site) {
  Submission submission = make_submission(kind, name, std::span(&tensor, 1), site);
  submission.request.root = root;
  submission.request.priority = options.priority;
  submission.request.compression = options.compression;
  return submission;
}

Pending submit(const Job::Impl& job, ProcessSet set, Submission submission) {
  Operations& operations = job.runtime->operations();
  return Pending(std::make_shared<Pending::Impl>(
      job.runtime, value_or_throw(operations.submit(job.id_of(set), std::move(submission)))));
}

void run(const Job::Impl& job, ProcessSet set, Submission submission) {
  Operations& operations = job.runtime->operations();
  const OperationPtr operation =
      value_or_throw(operations.run(job.id_of(set), std::move(submission)));
  throw_if_error(operation->status());
  throw_if_error(operations.order_after(operation, operation->submission().stream));
}

}  // namespace

bool Pending::ready() const { return impl_->operation->done(); }
void Pending::wait() const { throw_if_error(impl_->wait(kForever)); }

bool Pending::wait_for(std::chrono::milliseconds limit) const {
  const Status status = impl_->wait(now() + limit);
  if (status.code() == Code::kTimeout && !ready()) return false;
  throw_if_error(status);
  return true;
}

Array Pending::output(std::size_t index) const {
  wait();
  auto& owned = impl_->operation->owned_outputs();
  if (index >= owned.size()) return {};
  const DType dtype = impl_->operation->submission().request.tensors[index].dtype;
  return {owned[index].data, dtype, owned[index].shape};
}

std::vector<std::int64_t> Pending::received_splits() const {
  wait();
  return impl_->operation->recv_splits();
}

int Pending::last_joined() const {
  wait();
  return impl_->operation->last_joined();
}

Job::Job(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Job::Job(Job&&) noexcept = default;
Job::~Job() {
  if (impl_) shutdown();
}

int Job::rank() const noexcept { return impl_->runtime->rank(); }
int Job::size() const noexcept { return impl_->runtime->size(); }
int Job::local_rank() const noexcept { return impl_->runtime->place().local_rank; }
int Job::local_size() const noexcept { return impl_->runtime->place().local_size; }

Pending Job::allreduce_async(std::string_view name, const Tensor& tensor,
                             const ReduceOptions& options, CallSite site) {
  return grouped_allreduce_async(name, std::span(&tensor, 1), options, site);
}

void Job::allreduce(std::string_view name, const Tensor& tensor, const ReduceOptions& options,
                    CallSite site) {
  run(*impl_, options.set,
      reducing(Collective::kAllreduce, name, std::span(&tensor, 1), options, site));
}

Pending Job::grouped_allreduce_async(std::string_view name, std::span<const Tensor> tensors,
                                     const ReduceOptions& options, CallSite site) {
  return submit(*impl_, options.set,
                reducing(Collective::kAllreduce, name, tensors, options, site));
}

Pending Job::reduce_async(std::string_view name, const Tensor& tensor, int root,
                          const ReduceOptions& options, CallSite site) {
  Submission submission = reducing(Collective::kReduce, name, std::span(&tensor, 1), options, site);
  submission.request.root = root;
  return submit(*impl_, options.set, std::move(submission));
}

Pending Job::reduce_scatter_async(std::string_view name, const Tensor& tensor,
                                  const ReduceOptions& options, CallSite site) {
  Submission submission =
      reducing(Collective::kReduceScatter, name, std::span(&tensor, 1), options, site);
  submission.outputs[0] = nullptr;
  return submit(*impl_, options.set, std::move(submission));
}

Pending Job::broadcast_async(std::string_view name, const Tensor& tensor, int root,
                             const MoveOptions& options, CallSite site) {
  return submit(*impl_, options.set,
                moving(Collective::kBroadcast, name, tensor, root, options, site));
}

void Job::broadcast(std::string_view name, const Tensor& tensor, int root,
                    const MoveOptions& options, CallSite site) {
  broadcast_async(name, tensor, root, options, site).wait();
}

Pending Job::allgather_async(std::string_view name, const Tensor& tensor,
                             const MoveOptions& options, CallSite site) {
  Submission submission = moving(Collective::kAllgather, name, tensor, -1, options, site);
  submission.outputs[0] = nullptr;
  return submit(*impl_, options.set, std::move(submission));
}

Pending Job::gather_async(std::string_view name, const Tensor& tensor, int root,
                          const MoveOptions& options, CallSite site) {
  Submission submission = moving(Collective::kGather, name, tensor, root, options, site);
  submission.outputs[0] = nullptr;
  return submit(*impl_, options.set, std::move(submission));
}

Pending Job::scatter_async(std::string_view name, const void* whole, const Tensor& part, int root,
                           const MoveOptions& options, CallSite site) {
  Submission submission = moving(Collective::kScatter, name, part, root, options, site);
  submission.inputs[0] = whole;
  return submit(*impl_, options.set, std::move(submission));
}

Pending Job::alltoall_async(std::string_view name, const Tensor& tensor,
                            std::span<const std::int64_t> splits, const MoveOptions& options,
                            CallSite site) {
  Submission submission = moving(Collective::kAlltoall, name, tensor, -1, options, site);
  submission.outputs[0] = nullptr;
  submission.splits.assign(splits.begin(), splits.end());
  return submit(*impl_, options.set, std::move(submission));
}

Pending Job::sparse_allreduce_async(std::string_view name, const Tensor& rows,
                                    std::span<const std::int64_t> indices, std::int64_t table_rows,
                                    const ReduceOptions& options, CallSite site) {
  Submission submission =
      reducing(Collective::kSparseAllreduce, name, std::span(&rows, 1), options, site);
  submission.outputs[0] = nullptr;
  submission.splits.assign(indices.begin(), indices.end());
  submission.splits.push_back(table_rows);
  return submit(*impl_, options.set, std::move(submission));
}

void Job::barrier(ProcessSet set, CallSite site) {
  run(*impl_, set, make_submission(Collective::kBarrier, "", {}, site));
}

Pending Job::join_async(ProcessSet set) {
  return Pending(std::make_shared<Pending::Impl>(
      impl_->runtime, value_or_throw(impl_->runtime->operations().join(impl_->id_of(set)))));
}

Pending Job::send_async(int to, std::int64_t tag, std::span<const std::byte> data) {
  return Pending(std::make_shared<Pending::Impl>(
      impl_->runtime, value_or_throw(impl_->runtime->operations().send(to, tag, data))));
}

Pending Job::recv_async(int from, std::int64_t tag, std::span<std::byte> data, Received* received) {
  auto pending = std::make_shared<Pending::Impl>(impl_->runtime, nullptr);
  pending->operation =
      value_or_throw(impl_->runtime->operations().recv(from, tag, data, &pending->message));
  pending->received = received;
  return Pending(std::move(pending));
}

ProcessSet Job::add_process_set(const std::vector<int>& ranks) {
  if (!impl_->elastic_sets) return {value_or_throw(impl_->runtime->process_sets().add(ranks))};
  const elastic::EpochNote& place = *elastic::worker_of_process()->place();
  return {value_or_throw(impl_->elastic_sets->add(*impl_->runtime, place, ranks))};
}

void Job::remove_process_set(ProcessSet set) {
  throw_if_error(impl_->elastic_sets ? impl_->elastic_sets->remove(*impl_->runtime, set.id)
                                     : impl_->runtime->process_sets().remove(set.id));
}

Array Job::allocate(DType dtype, const Shape& shape) {
  const std::size_t bytes = static_cast<std::size_t>(element_count(shape)) * size_of(dtype);
  return {value_or_throw(impl_->runtime->groups().allocate(bytes)), dtype, shape};
}

Group Job::group(std::vector<int> ranks) {
  if (ranks.empty()) ranks = value_or_throw(impl_->runtime->process_sets().ranks(kGlobalSet));
  return make_group(value_or_throw(impl_->runtime->groups().open(std::move(ranks))),
                    impl_->runtime);
}

std::vector<ResidualState> Job::save_residuals() const {
  std::vector<ResidualState> saved;
  for (SavedResidual& one : value_or_throw(impl_->runtime->residuals().save())) {
    saved.push_back({one.set, std::move(one.name), one.steps, std::move(one.values)});
  }
  return saved;
}

void Job::load_residuals(std::vector<ResidualState> saved) {
  std::vector<SavedResidual> given;
  given.reserve(saved.size());
  for (ResidualState& one : saved) {
    given.push_back({one.set, std::move(one.name), one.steps, std::move(one.values)});
  }
  throw_if_error(impl_->runtime->residuals().load(std::move(given)));
}

std::size_t Job::residual_bytes() const { return impl_->runtime->residuals().bytes(); }

void Job::start_timeline(const std::string& path) {
  throw_if_error(impl_->runtime->timeline().start(path));
}
void Job::stop_timeline() { throw_if_error(impl_->runtime->timeline().stop()); }
void Job::mark(std::string_view name) { impl_->runtime->timeline().mark(name); }
void Job::begin_mark(std::string_view name) { impl_->runtime->timeline().begin_mark(name); }
void Job::end_mark() { impl_->runtime->timeline().end_mark(); }
void Job::mark_step() { impl_->runtime->timeline().mark_step(); }
void Job::mark_commit(std::uint64_t step) { impl_->runtime->timeline().mark_commit(step); }
void Job::mark_pass(std::string_view name) { impl_->runtime->timeline().mark_pass(name); }
void Job::interrupt() noexcept { impl_->interrupt(); }
void Job::shutdown() noexcept { impl_->runtime->shutdown(); }

void restart(Job::Impl& job) {
  if (job.runtime) job.runtime->shutdown();
  job.enter(value_or_throw(Runtime::create(value_or_throw(config_from(process_environment())))));
}

Job init() {
  auto impl = std::make_unique<Job::Impl>();
  elastic::Member* const worker = elastic::worker_of_process();
  if (worker == nullptr) {
    restart(*impl);
  } else if (!elastic::join(*worker, *impl)) {
    std::exit(0);  // NOLINT(concurrency-mt-unsafe): no thread of this library runs
  }
  return Job(std::move(impl));
}

}  // namespace ronde
