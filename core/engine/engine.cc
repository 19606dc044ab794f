#include "core/engine/engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/base/log.h"
#include "core/engine/failure_frame.h"
#include "core/engine/inside.h"

namespace ronde {

Engine::Engine(EngineOptions options)
    : options_(std::move(options)),
      channel_(*options_.channel),
      role_(channel_),
      intake_(role_, *options_.abort, *flights_, meter_),
      messages_(channel_.topology().rank),
      background_([this] { background_main(); }) {}

Engine::~Engine() {
  fail({Code::kAborted, "the runtime shuts down"});
  role_.stop();
  background_.join();
  while (callers_inside_.load(std::memory_order_acquire) > 0) std::this_thread::yield();
  while (step()) {  // ends what fail() and late callers left
  }
  std::unordered_map<SetId, QueuePtr> queues;
  {
    MutexLock lock(queues_mutex_);
    queues.swap(queues_);
  }
  queues.clear();  // their threads use this object, so they end first
  driven_queues_.clear();
}

void Engine::add_set(SetId id, std::vector<int> members, std::unique_ptr<Executor> executor,
                     std::optional<Duration> stall_error) {
  SetQueueOptions queue;
  queue.id = id;
  queue.negotiation.rank = channel_.topology().rank;
  for (const int member : members) {
    queue.negotiation.hosts.push_back(
        channel_.topology().peers[static_cast<std::size_t>(member)].host_index);
  }
  queue.negotiation.members = std::move(members);
  queue.negotiation.cache_capacity = options_.cache_capacity;
  queue.negotiation.stall_warning = options_.stall_warning;
  queue.negotiation.stall_error = stall_error.value_or(options_.stall_error);
  queue.fusion_threshold_bytes = options_.fusion_threshold_bytes;
  // A rank alone has nobody to wait for.
  queue.partition_bytes = queue.negotiation.members.size() == 1 ? 0 : options_.partition_bytes;
  queue.inline_bytes = options_.inline_bytes;
  queue.executor = std::move(executor);
  queue.abort = options_.abort;
  queue.topology = &channel_.topology();
  queue.events = options_.events;
  queue.flights = flights_.get();
  queue.meter = &meter_;
  queue.launches = &launches_;
  queue.on_device_work = [this, id] { ask_for_launch(id); };
  queue.on_launch = [this](std::uint64_t set) { place_launch(set); };
  queue.on_finished = [this] { role_.notify_callers(); };
  queue.on_paced = [this] { intake_.wake_driver(); };
  queue.on_left_behind = [this](const Status& why) { leave_behind(why); };
  queue.on_broken = [this](const Status& reason) { fail(reason); };
  auto added = std::make_shared<SetQueue>(std::move(queue));
  {
    MutexLock lock(queues_mutex_);
    queues_[id] = added;
  }
  intake_.post([this, added] {
    driven_queues_.push_back(added);
    if (launches_ended_) added->end_launches();
    order_early_launches();
    auto early = early_frames_.extract(added->id());
    if (early.empty()) return;
    for (auto& [from, frame] : early.mapped()) {
      if (Status status = added->on_frame(from, frame, now()); !status.ok()) fail_in_driver(status);
    }
  });
}

void Engine::remove_set(SetId id) {
  QueuePtr queue = find_queue(id);
  if (!queue) return;
  {
    MutexLock lock(queues_mutex_);
    queues_.erase(id);
  }
  intake_.post([this, queue] {
    removed_.insert(queue->id());
    std::erase(driven_queues_, queue);
  });
}

Result<OperationPtr> Engine::submit(SetId set, Submission submission) {
  const Inside inside(callers_inside_);  // the operation may end, and the job with it, any moment
  const QueuePtr queue = find_queue(set);
  if (!queue) {
    return Status(Code::kInvalidArgument,
                  fmt::format("this rank is in no process set with id {}", set));
  }
  RONDE_RETURN_IF_ERROR(job_status());
  const Duration help_time = submission.help;
  const bool helps = help_time > Duration(0) && nothing_outstanding() && inline_driving_.wanted();
  const bool caller_waits = submission.caller_waits || helps;
  const OperationPtr operation = intake_.submit(queue, std::move(submission), caller_waits);
  if (helps) help(*operation, now() + help_time);
  return operation;
}

Status Engine::wait(const OperationPtr& operation, const WaitOptions& options) {
  if (!operation->done()) {
    RONDE_RETURN_IF_ERROR(wait_until([&] { return operation->done(); }, options));
  }
  return operation->status();
}

void Engine::declare_blocked(std::span<const OperationPtr> operations, BlockedFlag blocked) {
  std::vector<std::uint64_t> tickets;
  for (const OperationPtr& operation : operations) tickets.push_back(operation->ticket());
  // After what has been submitted so far: it is not to count as still to come.
  intake_.post([this, tickets = std::move(tickets), blocked = std::move(blocked)] {
    for (const QueuePtr& queue : driven_queues_) queue->declare_blocked(tickets, blocked, now());
  });
}

Result<OperationPtr> Engine::send(int to, std::int64_t tag, std::span<const std::byte> data) {
  RONDE_RETURN_IF_ERROR(job_status());
  RONDE_RETURN_IF_ERROR(failure_of(std::span(&to, 1)));
  auto operation = intake_.make_message(kSendFlight, data.size());
  intake_.post([this, to, tag, data, operation] { messages_.send(to, tag, data, operation); });
  return operation;
}

Result<OperationPtr> Engine::recv(int from, std::int64_t tag, std::span<std::byte> data,
                                  Message* message) {
  RONDE_RETURN_IF_ERROR(job_status());
  auto operation = intake_.make_message(kRecvFlight, data.size());
  intake_.post([this, from, tag, data, message, operation] {
    messages_.recv(from, tag, data, message, operation);
  });
  return operation;
}

void Engine::leave_behind(const Status& why) {
  {
    MutexLock lock(left_mutex_);
    if (left_behind_.message() == why.message()) return;  // who goes on all the same is told once
    left_behind_ = why;
  }
  if (options_.on_left_behind) options_.on_left_behind();
}

Status Engine::left_behind() const {
  MutexLock lock(left_mutex_);
  return left_behind_;
}

Status Engine::failure_of(std::span<const int> ranks) {
  RONDE_RETURN_IF_ERROR(job_status());
  MutexLock lock(left_mutex_);
  for (const int rank : ranks) {
    const auto found = left_.find(rank);
    if (found != left_.end()) return found->second;
  }
  return {};
}

void Engine::send_clock(int to, std::function<std::vector<std::byte>()> make) {
  intake_.post([this, to, make = std::move(make)] {
    out_.push_back({to, make()});
    send_frames(EnginePart::kClock, 0);
  });
}

Result<std::vector<std::string>> Engine::exchange(std::uint64_t key, std::uint32_t round,
                                                  std::span<const int> ranks, std::string_view mine,
                                                  const WaitOptions& options) {
  const int self = channel_.topology().rank;
  auto payload =
      std::make_shared<std::vector<std::byte>>(KeyValueExchange::make_payload(round, mine));
  std::vector<int> others;
  std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(others),
               [&](int rank) { return rank != self; });
  intake_.post([this, key, payload, others] {
    for (const int to : others) out_.push_back({to, *payload});
    send_frames(EnginePart::kExchange, key);
  });
  std::optional<std::vector<std::string>> values;
  Status failure;
  const Status waited = wait_until(
      [&] {
        if (values) return true;  // waits look more than once
        values = exchange_.take(key, round, ranks, self, mine);
        if (!values) failure = failure_of(exchange_.missing(key, round, ranks, self));
        return values.has_value() || !failure.ok();
      },
      options);
  if (values) return std::move(*values);
  if (!failure.ok()) return failure;
  if (waited.code() != Code::kTimeout) return waited;
  const auto missing = exchange_.missing(key, round, ranks, self);
  return waited.with_context(fmt::format("no answer from rank {}", fmt::join(missing, ", ")));
}

void Engine::leave(TimePoint deadline, std::string why) {
  if (!job_status().ok()) return;
  std::vector<QueuePtr> queues;
  {
    MutexLock lock(queues_mutex_);
    for (const auto& [id, queue] : queues_) queues.push_back(queue);
  }
  const Status status = leave_queues(std::move(queues), deadline, std::move(why));
  if (!status.ok())
    log(LogLevel::kWarning, "leaving with operations in flight: {}", status.message());
}

Status Engine::leave_set(SetId id, TimePoint deadline) {
  const QueuePtr queue = find_queue(id);
  if (!queue) return {};
  RONDE_RETURN_IF_ERROR(leave_queues({queue}, deadline, {}));
  if (job_status().ok()) remove_set(id);
  return {};
}

Status Engine::leave_queues(std::vector<QueuePtr> queues, TimePoint deadline, std::string why) {
  auto left = std::make_shared<std::atomic<bool>>(false);
  intake_.post([this, queues, left, why = std::move(why)] {
    for (const QueuePtr& queue : queues) queue->leave(now(), why);
    left->store(true);
    role_.notify_callers();
  });
  WaitOptions options;
  options.deadline = deadline;
  options.heeds_earlier_interrupts = false;  // leaving is what they ask for
  return wait_until(
      [&] {
        if (options_.abort->aborted()) return true;
        return left->load() && std::all_of(queues.begin(), queues.end(), [](const QueuePtr& queue) {
                 return queue->closed() && queue->outstanding() == 0;
               });
      },
      options);
}

void Engine::fail(const Status& reason) {
  options_.abort->abort(reason);
  intake_.post([this, reason] { fail_in_driver(reason); });
}

void Engine::fail_in_driver(const Status& reason) {
  options_.abort->abort(reason);
  const Status first = job_status();
  tell_failure(first);
  for (const QueuePtr& queue : driven_queues_) queue->fail_pending(first);
  messages_.fail_all(first);
  finish_messages();
  role_.notify_callers();
}

void Engine::tell_failure(const Status& reason) {
  // Deaths are reported by the channel itself, and a rank on its way out breaks nothing.
  if (std::exchange(failure_told_, true) || reason.code() == Code::kAborted) return;
  for (int rank = 0; rank < channel_.topology().size(); ++rank) {
    if (rank != channel_.topology().rank) out_.push_back({rank, make_failure(reason)});
  }
  send_frames(EnginePart::kFailure, 0);
}

std::vector<std::string> Engine::describe_pending() {
  auto result = std::make_shared<std::vector<std::string>>();
  auto ready = std::make_shared<std::atomic<bool>>(false);
  intake_.post([this, result, ready] {
    for (const QueuePtr& queue : driven_queues_) {
      for (std::string& line : queue->describe_pending()) result->push_back(std::move(line));
    }
    ready->store(true);
    role_.notify_callers();
  });
  WaitOptions options;
  options.deadline = now() + std::chrono::seconds(1);
  options.heeds_earlier_interrupts = false;  // they are for those who wait for results
  if (!wait_until([&] { return ready->load(); }, options).ok()) return {};
  return *result;
}

Engine::QueuePtr Engine::find_queue(SetId id) const {
  MutexLock lock(queues_mutex_);
  const auto found = queues_.find(id);
  return found == queues_.end() ? nullptr : found->second;
}

}  // namespace ronde
