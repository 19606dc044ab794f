#include "core/engine/set_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/engine/bundle_id.h"
#include "core/engine/partition.h"

namespace ronde {
namespace {

constexpr std::uint64_t kPacedInFlight = 2;  // one runs, and the next is there when it ends

/// The request's root as a rank of the group; 0 where the kind has none.
int group_root(const Request& request, const std::vector<int>& members) {
  const auto found = std::find(members.begin(), members.end(), request.root);
  return found == members.end() ? 0 : static_cast<int>(found - members.begin());
}

Bundle bundle_like(const Request& request, DType dtype, const std::vector<int>& members) {
  Bundle bundle;
  bundle.kind = request.kind;
  bundle.dtype = dtype;
  bundle.op = request.op;
  bundle.root = group_root(request, members);
  bundle.prescale = request.prescale;
  bundle.postscale = request.postscale;
  bundle.device = request.device;
  bundle.compression = request.compression;
  return bundle;
}

/// What the residual of one tensor of a request is kept by: stable from step to step.
std::string residual_key(const Request& request, std::size_t tensor) {
  if (request.name.empty() || request.tensors.size() == 1) return request.name;
  return fmt::format("{}[{}]", request.name, tensor);
}

/// A tensor of an operation that this rank, having joined, did not submit.
BundleTensor absent_tensor(const TensorMeta& meta) {
  BundleTensor tensor;
  tensor.shape = meta.shape;
  return tensor;
}

/// Whether a failed execution leaves the group unusable; see Executor::execute.
bool breaks_group(Code code) {
  return code != Code::kOk && code != Code::kInvalidArgument && code != Code::kMismatch &&
         code != Code::kUnsupported && code != Code::kResourceExhausted;
}

}  // namespace

SetQueue::SetQueue(SetQueueOptions options)
    : options_(std::move(options)),
      negotiator_(options_.negotiation),
      turns_(*options_.launches),
      worker_({.executor = std::move(options_.executor),
               .abort = options_.abort,
               .flights = options_.flights,
               .meter = options_.meter,
               .finish =
                   [this](const OperationPtr& operation, const Status& status, TimePoint when) {
                     if (breaks_group(status.code())) options_.on_broken(status);
                     finish(operation, status, when);
                   },
               .paced_ended =
                   [this] {
                     paced_ended_.fetch_add(1, std::memory_order_acq_rel);
                     if (negotiator_.coordinates()) options_.on_paced();
                   }}) {}

void SetQueue::submit(const OperationPtr& operation, TimePoint now) {
  const Request& request = operation->submission().request;
  if (EventSink* events = sink()) {
    operation->make_label();
    events->begin(operation->label(), operation->negotiation_event(),
                  {.bytes = operation->input_bytes(), .at_ns = to_ns(now)});
  }
  const Status status = request.kind == Collective::kJoin
                            ? negotiator_.join(operation->ticket(), now)
                            : negotiator_.submit(request, operation->ticket(), now);
  if (status.ok()) {
    unagreed_.emplace(operation->ticket(), operation);
  } else {
    end_negotiation_events({&operation, 1}, now);
    finish(operation, status);
  }
}

Status SetQueue::on_frame(int from, std::span<const std::byte> payload, TimePoint now) {
  return negotiator_.on_frame(from, payload, now);
}

void SetQueue::declare_blocked(std::span<const std::uint64_t> tickets, const BlockedFlag& blocked,
                               TimePoint now) {
  negotiator_.declare_blocked(tickets, blocked, now);
}
void SetQueue::on_time(TimePoint now) { negotiator_.on_time(now); }
TimePoint SetQueue::next_deadline() const { return negotiator_.next_deadline(); }
void SetQueue::take_frames(std::vector<OutFrame>& out) { negotiator_.take_frames(out); }
void SetQueue::take_warnings(std::vector<std::string>& out) {
  const std::size_t before = out.size();
  negotiator_.take_warnings(out);
  if (out.size() > before) options_.meter->warned(out.size() - before);
}

bool SetQueue::collect_agreed() {
  do {
    negotiator_.take_batches(batches_);
    if (!batches_.empty()) options_.meter->negotiated(metered_, negotiator_.stats());
    for (Batch& batch : batches_) collect_batch(batch);
    batches_.clear();
  } while (pace());
  if (negotiator_.closed()) {
    order_.open();
    drain();
    closed_.store(true, std::memory_order_release);
  }
  return !collected_.empty();
}

/// Lets more go where fewer than kPacedInFlight have not ended; true where it did.
bool SetQueue::pace() {
  if (order_.paced() == 0 || !negotiator_.coordinates() || negotiator_.closed()) return false;
  const std::uint64_t in_flight = released_ - paced_ended_.load(std::memory_order_acquire);
  if (in_flight >= kPacedInFlight) return false;
  const auto more = std::min<std::uint64_t>(kPacedInFlight - in_flight, order_.paced());
  released_ += more;
  negotiator_.release(static_cast<std::uint32_t>(more));
  return true;
}

void SetQueue::enter(ReadyBundle whole) {
  // Nothing that follows could overtake what is not worth a second partition.
  const std::size_t bytes = agreed_bytes(whole.bundle);
  const bool paced = options_.partition_bytes > 0 && bytes > options_.partition_bytes / 2;
  for (ReadyBundle& part : cut_bundle(std::move(whole), options_.partition_bytes)) {
    part.bundle.id = (static_cast<std::uint64_t>(id()) << kBundleBits) | ++bundles_;
    part.paced = paced;
    if (paced || !order_.empty()) {
      const std::int32_t priority = part.priority;
      order_.add(std::move(part), priority, paced);
    } else {
      release(std::move(part));
    }
  }
}

void SetQueue::drain() {
  while (auto ready = order_.next()) release(std::move(*ready));
}

void SetQueue::release(ReadyBundle ready) {
  if (ready.bundle.device.kind != DeviceKind::kCpu && members().size() > 1) {
    if (id() == kGlobalSet) {
      turns_.place_next();
    } else if (negotiator_.coordinates() && !options_.abort->aborted()) {
      options_.on_device_work();
    }
    ready.turn = turns_.take();
    ready.bundle.turn = ready.turn.get();
  }
  collected_.push_back(std::move(ready));
}

void SetQueue::collect_batch(Batch& batch) {
  const TimePoint agreed = now();
  std::vector<OperationPtr> operations = take_operations(batch);
  for (const OperationPtr& operation : operations) {
    if (!operation) continue;
    options_.flights->reach(operation->flight(), FlightStage::kAgreed, agreed);
    operation->set_agreed(agreed);
  }
  end_negotiation_events(operations, agreed);
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Agreed& item = batch.items[i];
    OperationPtr& operation = operations[i];
    const bool moves_data =
        item.request.kind != Collective::kJoin && item.request.kind != Collective::kBarrier;
    if (operation && (!item.status.ok() || !moves_data)) {
      operation->set_last_joined(item.last_joined);
      finish(operation, item.status);
      operation.reset();
    }
  }
  for (const PlannedBundle& planned : plan_fusion(batch, options_.fusion_threshold_bytes)) {
    collect_bundle(batch, operations, planned.entries);
  }
  order_.release(batch.released);
  drain();
  for (const std::uint64_t set : batch.launches) options_.on_launch(set);
}

void SetQueue::collect_bundle(const Batch& batch, const std::vector<OperationPtr>& operations,
                              std::span<const PlanEntry> entries) {
  const Request& first = batch.items[entries.front().item].request;
  const DType dtype = first.tensors[entries.front().tensor].dtype;
  ReadyBundle ready;
  ready.bundle = bundle_like(first, dtype, members());
  for (const PlanEntry& entry : entries) {
    const OperationPtr& operation = operations[entry.item];
    ready.operations.push_back(operation);
    ready.priorities.push_back(batch.items[entry.item].priority);
    if (!ready.bundle.compression.empty()) {
      ready.bundle.keys.push_back(residual_key(batch.items[entry.item].request, entry.tensor));
    }
    ready.bundle.tensors.push_back(
        operation ? operation->bundle_tensor(entry.tensor)
                  : absent_tensor(batch.items[entry.item].request.tensors[entry.tensor]));
  }
  ready.priority = ready.priorities.front();
  enter(std::move(ready));
}

void SetQueue::run_agreed(bool alone) {
  for (ReadyBundle& ready : collected_) {
    const bool small = input_bytes(ready.bundle) <= options_.inline_bytes;
    worker_.run_or_queue(std::move(ready), alone && small);
  }
  collected_.clear();
}

void SetQueue::leave(TimePoint now, std::string_view why) { negotiator_.leave(now, why); }

void SetQueue::fail_pending(const Status& reason) {
  order_.open();
  drain();
  run_agreed(false);
  std::vector<OperationPtr> failed;
  for (auto& [ticket, operation] : unagreed_) failed.push_back(operation);
  unagreed_.clear();
  end_negotiation_events(failed, now());
  for (const OperationPtr& operation : failed) finish(operation, reason);
}

std::vector<std::string> SetQueue::describe_pending() const {
  return negotiator_.describe_pending();
}

OperationPtr SetQueue::take_operation(std::uint64_t ticket) {
  if (ticket == 0) return nullptr;
  const auto found = unagreed_.find(ticket);
  if (found == unagreed_.end()) return nullptr;  // failed meanwhile
  OperationPtr operation = std::move(found->second);
  unagreed_.erase(found);
  return operation;
}

/// In the order of the batch; null where this rank submitted nothing.
std::vector<OperationPtr> SetQueue::take_operations(const Batch& batch) {
  std::vector<OperationPtr> operations;
  operations.reserve(batch.items.size());
  for (const Agreed& item : batch.items) operations.push_back(take_operation(item.ticket));
  return operations;
}

/// All at once, and before any of them is told to have ended: its name may be used again then.
void SetQueue::end_negotiation_events(std::span<const OperationPtr> operations,
                                      TimePoint when) const {
  EventSink* const events = sink();
  if (events == nullptr) return;
  std::vector<std::string_view> tracks;
  tracks.reserve(operations.size());
  for (const OperationPtr& operation : operations) {
    if (operation && !operation->label().empty()) tracks.push_back(operation->label());
  }
  events->end_all(tracks, {.at_ns = to_ns(when)});
}

void SetQueue::finish(const OperationPtr& operation, const Status& status, TimePoint when) {
  options_.flights->end(operation->flight(), status.code(), when);
  options_.meter->ended(ended_operation(*operation, status.code(), when));
  // Counted out first: who sees it done may rely on the queue being idle.
  outstanding_.fetch_sub(1, std::memory_order_acq_rel);
  const Status told = located(status);
  operation->finish(told);
  options_.role->notify_callers();
  if (told.code() == Code::kRankFailure) options_.on_left_behind(told);
}

/// The same failure with the host and pid of the rank it names: the protocol knows ranks alone.
Status SetQueue::located(const Status& status) const {
  const auto& who = status.failed_rank();
  if (options_.topology == nullptr || !who || who->pid != 0) return status;
  const PeerInfo& peer = options_.topology->peers[static_cast<std::size_t>(who->rank)];
  const std::string text =
      fmt::format("{} (pid {} on {})", status.message(), peer.pid, peer.host_name);
  return Status(status.code(), text).about({who->rank, peer.host_name, peer.pid});
}

}  // namespace ronde
