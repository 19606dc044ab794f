#include "bindings/runtime/runtime.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "bindings/runtime/raw_group.h"
#include "bindings/runtime/runtime_impl.h"

namespace ronde {
namespace {

/// Position of `rank` in `ranks`.
int position(const std::vector<int>& ranks, int rank) {
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

/// The ranks that have the same local rank as this one, one for each host.
std::vector<int> cross_ranks(const Topology& topology) {
  const int local = position(topology.host_ranks(topology.rank), topology.rank);
  std::vector<int> ranks;
  for (int r = 0; r < topology.size(); ++r) {
    if (position(topology.host_ranks(r), r) == local) ranks.push_back(r);
  }
  return ranks;
}

}  // namespace

Runtime::Runtime(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Runtime::~Runtime() {
  shutdown();
  if (impl_->mark->forked()) (void)impl_.release();  // its threads are not here to be ended
}

Result<std::unique_ptr<Runtime>> Runtime::create(const Config& config) {
  return create(config, builtin_device_libraries());
}

Result<std::unique_ptr<Runtime>> Runtime::create(const Config& config, DeviceLibraries libraries) {
  auto impl = std::make_unique<Impl>(config, std::move(libraries));
  if (Status status = impl->start(); !status.ok()) {
    impl->stop();
    return status;
  }
  return std::unique_ptr<Runtime>(new Runtime(std::move(impl)));
}

const Config& Runtime::config() const noexcept { return impl_->config; }
const Topology& Runtime::topology() const noexcept { return impl_->topology; }
int Runtime::rank() const noexcept { return impl_->topology.rank; }
int Runtime::size() const noexcept { return impl_->topology.size(); }
int Runtime::local_rank() const noexcept {
  return position(impl_->topology.host_ranks(rank()), rank());
}
int Runtime::local_size() const noexcept {
  return static_cast<int>(impl_->topology.host_ranks(rank()).size());
}
int Runtime::cross_rank() const noexcept { return position(cross_ranks(impl_->topology), rank()); }
int Runtime::cross_size() const noexcept {
  return static_cast<int>(cross_ranks(impl_->topology).size());
}

Result<OperationPtr> Runtime::submit(SetId set, Submission submission) {
  RONDE_RETURN_IF_ERROR(impl_->usable());
  RONDE_RETURN_IF_ERROR(impl_->check(submission, set));
  RONDE_RETURN_IF_ERROR(impl_->settle_compression(submission.request, set));
  RONDE_RETURN_IF_ERROR(impl_->prepare_device(submission, set));
  return impl_->engine->submit(set, std::move(submission));
}

void Runtime::declare_blocked(std::span<const OperationPtr> operations, BlockedFlag blocked) {
  if (impl_->usable().ok()) impl_->engine->declare_blocked(operations, std::move(blocked));
}

Status Runtime::wait(const OperationPtr& operation, const WaitOptions& options) {
  if (operation->done()) return operation->status();
  RONDE_RETURN_IF_ERROR(impl_->usable());
  const diagnosis::WaitingCallers::Note waiting(impl_->callers);
  EventSink* const events = impl_->events.get();
  if (events == nullptr) return impl_->engine->wait(operation, options);
  impl_->core_wait.sample(*events);
  events->begin(kWaitLane, "WAIT", {});
  Status status = impl_->engine->wait(operation, options);
  events->end(kWaitLane, {});
  impl_->core_wait.sample(*events);
  return status;
}

Status Runtime::order_after(const OperationPtr& operation, DeviceStream stream) {
  const auto& completion = operation->completion();
  if (!completion) return {};
  RONDE_ASSIGN_OR_RETURN(const auto device,
                         impl_->devices.open(operation->submission().request.device.index));
  return device->wait(stream, *completion);
}

Result<OperationPtr> Runtime::run(SetId set, Submission submission, const WaitOptions& options) {
  submission.caller_waits = true;
  RONDE_ASSIGN_OR_RETURN(OperationPtr operation, submit(set, std::move(submission)));
  RONDE_RETURN_IF_ERROR(wait(operation, options));
  return operation;
}

Result<OperationPtr> Runtime::join(SetId set, std::function<void(Operation&)> on_done) {
  Submission submission;
  submission.request.kind = Collective::kJoin;
  submission.on_done = std::move(on_done);
  RONDE_RETURN_IF_ERROR(impl_->usable());
  return impl_->engine->submit(set, std::move(submission));
}

Result<SetId> Runtime::add_process_set(std::vector<int> ranks, const WaitOptions& options) {
  RONDE_RETURN_IF_ERROR(impl_->usable());
  std::sort(ranks.begin(), ranks.end());
  RONDE_RETURN_IF_ERROR(impl_->sets.check_new(ranks));
  const SetId id = impl_->sets.next();
  RONDE_RETURN_IF_ERROR(impl_->agree(fmt::format("add ranks {}", fmt::join(ranks, ", ")), options));
  const bool member = std::binary_search(ranks.begin(), ranks.end(), rank());
  Status mine;
  std::unique_ptr<CollectiveExecutor> executor;
  if (member) {
    auto opened = impl_->open_executor(static_cast<std::uint64_t>(id), ranks, options, id);
    mine = opened.status();
    if (opened.ok()) executor = std::move(opened).value();
  }
  if (Status status = impl_->share_outcome(mine, options); !status.ok()) {
    impl_->sets.skip();
    return status.with_context(fmt::format("process set {} could not be opened", id));
  }
  impl_->sets.add(ranks);
  if (member) impl_->engine->add_set(id, ranks, std::move(executor));
  return id;
}

Status Runtime::remove_process_set(SetId set, const WaitOptions& options) {
  RONDE_RETURN_IF_ERROR(impl_->usable());
  if (set == kGlobalSet) return {Code::kInvalidArgument, "the global process set stays"};
  RONDE_RETURN_IF_ERROR(impl_->sets.ranks(set).status());
  RONDE_RETURN_IF_ERROR(impl_->agree(fmt::format("remove set {}", set), options));
  impl_->engine->remove_set(set);
  impl_->sets.remove(set);
  return {};
}

Result<SetId> Runtime::open_set(std::vector<int> ranks, const SetOptions& set,
                                const WaitOptions& options) {
  RONDE_RETURN_IF_ERROR(impl_->usable());
  std::sort(ranks.begin(), ranks.end());
  RONDE_RETURN_IF_ERROR(impl_->sets.check_ranks(ranks));
  if (!std::binary_search(ranks.begin(), ranks.end(), rank())) {
    return Status(Code::kInvalidArgument, fmt::format("rank {} is not in the set", rank()));
  }
  const std::uint64_t key = impl_->raw_key(ranks);
  EngineExchange exchange(*impl_->engine, Impl::agreement_key(key), ranks, options);
  RONDE_ASSIGN_OR_RETURN(const SetId id, impl_->agree_on_id(exchange, ranks, set.name));
  auto executor = impl_->open_executor(key, ranks, options, id);
  RONDE_RETURN_IF_ERROR(Impl::first_error(exchange, ranks, executor.status()));
  impl_->sets.add_private(id, ranks);
  impl_->engine->add_set(id, std::move(ranks), std::move(executor).value(), set.stall_error);
  return id;
}

Status Runtime::close_set(SetId set, const WaitOptions& options) {
  RONDE_RETURN_IF_ERROR(impl_->usable());
  if (set < kFirstPrivateSet) {
    return {Code::kInvalidArgument, fmt::format("set {} was not made by open_set()", set)};
  }
  RONDE_RETURN_IF_ERROR(impl_->sets.ranks(set).status());
  impl_->sets.remove(set);
  return impl_->engine->leave_set(set, options.deadline);
}

Result<std::vector<int>> Runtime::process_set_ranks(SetId set) const {
  return impl_->sets.ranks(set);
}

std::vector<SetId> Runtime::process_sets() const { return impl_->sets.ids(); }

Result<OperationPtr> Runtime::send(int to, std::int64_t tag, std::span<const std::byte> data) {
  RONDE_RETURN_IF_ERROR(impl_->usable());
  if (to < 0 || to >= size()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("cannot send to rank {}; allowed: 0 to {}", to, size() - 1));
  }
  return impl_->engine->send(to, tag, data);
}

Result<OperationPtr> Runtime::recv(int from, std::int64_t tag, std::span<std::byte> data,
                                   Message* message) {
  RONDE_RETURN_IF_ERROR(impl_->usable());
  if (from != kAnySource && (from < 0 || from >= size())) {
    return Status(Code::kInvalidArgument,
                  fmt::format("cannot receive from rank {}; allowed: 0 to {}, or {} for any", from,
                              size() - 1, kAnySource));
  }
  return impl_->engine->recv(from, tag, data, message);
}

Result<std::unique_ptr<RawGroup>> Runtime::open_group(std::vector<int> ranks,
                                                      std::string algorithm) {
  RONDE_RETURN_IF_ERROR(impl_->usable());
  std::sort(ranks.begin(), ranks.end());
  if (!std::binary_search(ranks.begin(), ranks.end(), rank())) {
    return Status(Code::kInvalidArgument, fmt::format("rank {} is not in the group", rank()));
  }
  WaitOptions options;
  options.deadline = now() + impl_->config.start_timeout;
  const std::uint64_t key = impl_->raw_key(ranks);
  RONDE_ASSIGN_OR_RETURN(auto executor,
                         impl_->open_executor(key, ranks, options, kGlobalSet, algorithm));
  return make_raw_group(std::move(executor), {.abort = impl_->abort,
                                              .mark = impl_->mark,
                                              .flights = impl_->engine->flights(),
                                              .ranks = ranks,
                                              .rank = position(ranks, rank()),
                                              .key = key});
}

Result<std::shared_ptr<std::byte>> Runtime::allocate(std::size_t bytes) {
  RONDE_RETURN_IF_ERROR(impl_->usable());
  RONDE_ASSIGN_OR_RETURN(const auto candidates, impl_->registry.candidates(impl_->config.backend));
  for (Backend* backend : candidates) {
    if (auto memory = backend->allocate(bytes)) return memory;
  }
  if (auto* plain = static_cast<std::byte*>(std::calloc(std::max<std::size_t>(bytes, 1), 1))) {
    return std::shared_ptr<std::byte>(plain, &std::free);
  }
  return Status(Code::kResourceExhausted, fmt::format("no memory for {} bytes", bytes));
}

Result<std::vector<SavedResidual>> Runtime::save_residuals() const {
  return impl_->residuals->save();
}
Status Runtime::load_residuals(std::vector<SavedResidual> saved) {
  return impl_->residuals->load(std::move(saved));
}
std::size_t Runtime::residual_bytes() const { return impl_->residuals->bytes(); }
std::map<std::pair<int, std::string>, CompressionLoss> Runtime::compression_losses() const {
  return impl_->residuals->losses();
}

Status Runtime::start_timeline(const std::string& path, bool mark_cycles) {
  return impl_->start_timeline(path, mark_cycles);
}
Status Runtime::stop_timeline() { return impl_->stop_timeline(); }
void Runtime::pause_timeline(bool paused) { impl_->pause_timeline(paused); }

void Runtime::mark(std::string_view name) {
  if (EventSink* events = impl_->events.get()) events->instant(kMarksLane, name);
}

void Runtime::begin_mark(std::string_view name) {
  if (EventSink* events = impl_->events.get()) events->begin(kMarksLane, name, {});
}

void Runtime::end_mark() {
  if (EventSink* events = impl_->events.get()) events->end(kMarksLane, {});
}

void Runtime::mark_step() {
  const auto steps = impl_->steps.fetch_add(1) + 1;
  EventSink* events = impl_->events.get();
  if (events == nullptr) return;
  impl_->core_wait.sample_step(*events);
  events->counter(kStepCounter, static_cast<double>(steps));
}

void Runtime::mark_pass(std::string_view name) {
  EventSink* events = impl_->events.get();
  if (events == nullptr) return;
  events->end(kPassesLane, {});
  if (!name.empty()) events->begin(kPassesLane, name, {});
}

void Runtime::shutdown(std::string_view why) noexcept { impl_->stop(why); }

void Runtime::interrupt() noexcept {
  if (!impl_->stopped) impl_->engine->interrupt();
}

std::vector<std::string> Runtime::describe_backends() const {
  const auto everyone = impl_->sets.ranks(kGlobalSet);
  return impl_->registry.describe(impl_->group_spec(kGlobalSet, *everyone));
}

}  // namespace ronde
