#include "core/engine/queues/set_queue.h"

#include <fmt/format.h>

#include <utility>

#include "core/engine/queues/fusion.h"
#include "core/engine/queues/launch_coordinator.h"

namespace ronde {
namespace {

/// True if a failed execution leaves the group unusable; see Executor::execute.
bool breaks_group(Code code) {
  return code != Code::kOk && code != Code::kInvalidArgument && code != Code::kMismatch &&
         code != Code::kUnsupported && code != Code::kResourceExhausted && code != Code::kNonfinite;
}

}  // namespace

SetQueue::SetQueue(SetQueueOptions options)
    : options_(std::move(options)),
      member_(options_.member),
      bundles_(options_, member_.coordinates(),
               [this](const OperationPtr& operation, const Status& status, TimePoint when) {
                 if (breaks_group(status.code())) break_job(status);
                 end(operation, status, when);
               }) {}

/// The driving thread's next step ends all operations.
void SetQueue::break_job(const Status& reason) {
  options_.abort->abort(reason);
  options_.role->request_step();
}

void SetQueue::submit(const OperationPtr& operation, TimePoint now) {
  const Request& request = operation->submission().request;
  if (EventSink* events = sink()) {
    operation->make_label();
    events->begin(
        operation->label(), operation->negotiation_event(),
        {.collective = request.kind, .bytes = operation->input_bytes(), .at_ns = to_ns(now)});
  }
  const Status status =
      request.kind == Collective::kJoin
          ? member_.join(operation->ticket())
          : member_.submit(request, operation->ticket(), now, payload_of(operation->submission()));
  if (status.ok()) {
    unagreed_.emplace(operation->ticket(), operation);
  } else {
    end_negotiation_events({&operation, 1}, now);
    finish(operation, outcome(status, request));
  }
}

/// This rank's data, where it should travel with the agreement.
InlinePayload SetQueue::payload_of(const Submission& submission) const {
  InlinePayload payload;
  const Request& request = submission.request;
  if (!member_.wants_payload(request)) return payload;
  const int rank = options_.member.rank;
  payload.whole = true;
  if (!puts_payload_in(request, rank)) return payload;
  payload.ranks = {rank};
  for (std::size_t i = 0; i < request.tensors.size(); ++i) {
    const auto* const data = static_cast<const std::byte*>(submission.inputs[i]);
    if (data == nullptr) return {};
    payload.bytes.insert(payload.bytes.end(), data, data + bytes_of(request.tensors[i]));
  }
  return payload;
}

void SetQueue::take_warnings(std::vector<QueueWarning>& out) {
  std::vector<std::string> texts;
  member_.take_warnings(texts);
  if (!texts.empty()) options_.meter->stall_warnings.add(texts.size());
  for (std::string& text : texts) out.push_back({std::move(text), member_.coordinates()});
}

bool SetQueue::collect_agreed() {
  do {
    member_.take_batches(batches_);
    if (!batches_.empty()) options_.meter->negotiated(metered_, member_.stats());
    for (Batch& batch : batches_) collect_batch(batch);
    batches_.clear();
  } while (pace());
  if (member_.closed() && !closed()) {
    bundles_.open();
    closed_.store(true, std::memory_order_release);
    options_.role->notify_callers();  // callers in leave() wait for it, even without an operation
  }
  return bundles_.has_work();
}

/// The coordinator lets more paced bundles run on all ranks; true if it did.
bool SetQueue::pace() {
  if (!member_.coordinates() || member_.closed()) return false;
  const std::uint32_t more = bundles_.pace();
  if (more > 0) member_.release(more);
  return more > 0;
}

void SetQueue::collect_batch(Batch& batch) {
  const TimePoint agreed = now();
  std::vector<OperationPtr> operations = take_operations(batch);
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const OperationPtr& operation = operations[i];
    if (!operation || !batch.items[i].status.ok()) continue;  // a failure is no agreement
    options_.records->reach(operation->record(), OperationStage::kAgreed, agreed);
    operation->set_agreed(agreed);
  }
  end_negotiation_events(operations, agreed);
  finish_without_work(batch, operations);
  for (QueuedBundle& bundle :
       fuse(batch, operations, members(), options_.fusion_threshold_bytes, options_.check_mean)) {
    bundles_.add(std::move(bundle));
  }
  bundles_.release(batch.released);
  for (const std::uint64_t set : batch.launches) options_.coordinator->place(set);
}

/// Ends the operations of a batch that failed or move no data.
void SetQueue::finish_without_work(const Batch& batch, std::vector<OperationPtr>& operations) {
  bool any = false;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Agreed& item = batch.items[i];
    OperationPtr& operation = operations[i];
    const bool moves_data = traits_of(item.request.kind).moves_data();
    if (operation && (!item.status.ok() || !moves_data)) {
      operation->set_last_joined(item.last_joined);
      end(operation, outcome(item.status, operation->submission().request), now());
      operation.reset();
      any = true;
    }
  }
  if (any) options_.role->notify_callers();
}

/// The result of an operation that the negotiation ended with `status`.
Status SetQueue::outcome(const Status& status, const Request& request) const {
  const bool left = status.code() == Code::kRankFailure && member_.closed();
  if (!left) return status;
  if (removed_.load(std::memory_order_acquire)) {
    return {Code::kAborted, "the process set was removed before all its ranks submitted this"};
  }
  const Status who = located(status);
  return Status(who.code(), who.message() + member_.waits_for_leaver(request))
      .about(who.failed_rank().value_or(FailedRank()));
}

void SetQueue::fail_pending(const Status& reason) {
  bundles_.open();
  bundles_.run(false);
  std::vector<OperationPtr> failed;
  for (auto& [ticket, operation] : unagreed_) failed.push_back(operation);
  unagreed_.clear();
  end_negotiation_events(failed, now());
  for (const OperationPtr& operation : failed) end(operation, reason, now());
  options_.role->notify_callers();
}

/// In the order of the batch; null where this rank submitted nothing, or it has failed meanwhile.
std::vector<OperationPtr> SetQueue::take_operations(const Batch& batch) {
  std::vector<OperationPtr> operations;
  operations.reserve(batch.items.size());
  for (const Agreed& item : batch.items) {
    auto node = unagreed_.extract(item.ticket);
    operations.push_back(node.empty() ? nullptr : std::move(node.mapped()));
  }
  return operations;
}

/// Before any of them ends: its name may be used again then.
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

void SetQueue::finish(const OperationPtr& operation, const Status& status) {
  end(operation, status, now());
  options_.role->notify_callers();
}

void SetQueue::end(const OperationPtr& operation, const Status& status, TimePoint when) {
  options_.records->end(operation->record(), status.code(), when);
  options_.meter->ended(ended_operation(*operation, status.code(), when));
  // Counted out first: a thread that sees it done may rely on the queue being idle.
  outstanding_.fetch_sub(1, std::memory_order_acq_rel);
  const Status told = located(status);
  operation->finish(told);
  if (told.code() == Code::kRankFailure) options_.left_behind->note(told);
}

/// Adds host and pid of the rank that a failure names: the protocol knows ranks alone.
Status SetQueue::located(const Status& status) const {
  const auto& who = status.failed_rank();
  if (options_.topology == nullptr || !who || who->pid != 0) return status;
  const PeerInfo& peer = options_.topology->peers[static_cast<std::size_t>(who->rank)];
  const std::string text =
      fmt::format("{} (pid {} on {})", status.message(), peer.pid, peer.host_name);
  return Status(status.code(), text).about({who->rank, peer.host_name, peer.pid});
}

}  // namespace ronde
