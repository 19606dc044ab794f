#include "core/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "core/base/join_text.h"
#include "core/base/log.h"

namespace ronde {

namespace {

/// How long a caller whose wait for an exchange has timed out asks others who is missing.
constexpr std::chrono::milliseconds kNamingLimit{500};

}  // namespace

Engine::Engine(EngineOptions options)
    : options_(std::move(options)),
      channel_(*options_.channel),
      meter_(options_.meter != nullptr ? *options_.meter : own_meter_),
      left_behind_(options_.on_left_behind),
      role_(channel_),
      tasks_(role_, *options_.abort, *records_, meter_),
      sender_(channel_, *options_.abort),
      queues_(sender_),
      exchange_(sender_),
      messages_(tasks_, sender_, options_.events),
      membership_(tasks_, sender_, queues_, messages_),
      router_(role_, sender_, queues_, exchange_, messages_, membership_, options_.on_clock),
      progress_(channel_, tasks_, router_, queues_, membership_, options_.on_stall),
      driver_(channel_, role_, progress_, membership_,
              {.spin = options_.spin, .far_deadline = options_.far_deadline}) {}

Engine::~Engine() {
  fail({Code::kAborted, "the runtime shuts down"});
  driver_.stop();
  queues_.clear();  // their threads use this object
}

void Engine::fail(const Status& reason) {
  options_.abort->abort(reason);
  role_.request_step();
}

void Engine::add_set(SetId id, std::vector<int> members, std::unique_ptr<Executor> executor,
                     std::optional<Duration> stall_error) {
  SetQueueOptions queue;
  queue.id = id;
  queue.fusion_threshold_bytes = options_.fusion_threshold_bytes;
  // A rank alone waits for no other.
  queue.partition_bytes = members.size() == 1 ? 0 : options_.partition_bytes;
  queue.member.rank = topology().rank;
  for (const int member : members) {
    queue.member.hosts.push_back(topology().peers[static_cast<std::size_t>(member)].host_index);
  }
  queue.member.members = std::move(members);
  queue.member.cache_capacity = options_.cache_capacity;
  queue.member.payload_bytes = options_.payload_bytes;
  queue.member.payloads = options_.payloads;
  queue.member.stall = options_.stall;
  if (stall_error) queue.member.stall.error = *stall_error;
  queue.executor = std::move(executor);
  queue.inline_bytes = options_.inline_bytes;
  queue.abort = options_.abort;
  queue.topology = &topology();
  queue.events = options_.events;
  queue.records = records_.get();
  queue.meter = &meter_;
  queue.role = &role_;
  queue.launches = &launch_order_;
  queue.coordinator = &queues_.launches();
  queue.left_behind = &left_behind_;
  queue.nonfinite = options_.nonfinite;
  queue.check_mean = options_.check_mean;
  const auto made = std::make_shared<SetQueue>(std::move(queue));
  queues_.add(made);
  tasks_.post([this, made] {
    const Status status = queues_.start(made);
    if (!status.ok()) options_.abort->abort(status);
  });
}

void Engine::remove_set(SetId id) {
  const SetQueuePtr queue = queues_.remove(id);
  if (!queue) return;
  tasks_.post([this, queue] { queues_.stop(queue); });
}

Result<OperationPtr> Engine::submit(SetId set, Submission submission) {
  const Inside inside = driver_.enter();  // the operation may end, and the job with it, any moment
  const SetQueuePtr queue = queues_.find(set);
  if (!queue) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: this rank is in no process set with id {}",
                              described(submission.request), set));
  }
  RONDE_RETURN_IF_ERROR(job_status());
  const Duration help_time = submission.help;
  const bool helps =
      help_time > Duration(0) && tasks_.empty() && queues_.idle() && driver_.should_help();
  const bool caller_waits = submission.caller_waits || helps;
  OperationPtr operation = tasks_.submit(queue, std::move(submission), caller_waits);
  if (helps) driver_.help(*operation, now() + help_time);
  return operation;
}

Status Engine::wait(const OperationPtr& operation, const WaitOptions& options) {
  if (!operation->done()) {
    RONDE_RETURN_IF_ERROR(driver_.wait_until([&] { return operation->done(); }, options));
  }
  return operation->status();
}

void Engine::declare_blocked(std::span<const OperationPtr> operations, BlockedFlag blocked) {
  std::vector<std::uint64_t> tickets;
  for (const OperationPtr& operation : operations) tickets.push_back(operation->ticket());
  // After all submissions so far: they do not count as still to come.
  tasks_.post([this, tickets = std::move(tickets), blocked = std::move(blocked)] {
    for (const SetQueuePtr& queue : queues_.driven()) {
      queue->member().declare_blocked(tickets, blocked, now());
    }
  });
}

Result<OperationPtr> Engine::send(int to, std::int64_t tag, std::span<const std::byte> data,
                                  const std::string& type) {
  RONDE_RETURN_IF_ERROR(membership_.failure_of(to));
  return messages_.send(to, tag, data, type);
}

Result<OperationPtr> Engine::recv(int from, std::int64_t tag, std::span<std::byte> data,
                                  Message* message, const std::string& type) {
  RONDE_RETURN_IF_ERROR(job_status());
  return messages_.recv(from, tag, data, message, type);
}

void Engine::send_clock(int to, std::function<std::vector<std::byte>()> make) {
  tasks_.post([this, to, make = std::move(make)] {
    sender_.add(to, make());
    sender_.send(EnginePart::kClock, 0);
  });
}

Result<std::vector<std::string>> Engine::exchange(std::uint64_t key, std::uint32_t round,
                                                  std::span<const int> ranks, std::string_view mine,
                                                  const WaitOptions& options) {
  const ExchangeId id{key, round};
  tasks_.post([this, id, all = std::vector(ranks.begin(), ranks.end()), mine = std::string(mine)] {
    exchange_.begin(id, all, mine);
    role_.notify_callers();
  });
  std::optional<KeyValueExchange::Outcome> outcome;
  const Status waited = driver_.wait_until(
      [&] {
        if (!outcome) outcome = exchange_.take(id);  // waits look more than once
        return outcome.has_value() || options_.abort->aborted();
      },
      options);
  if (outcome) return std::move(*outcome);
  const std::string missing = waited.code() == Code::kTimeout ? name_missing(id) : std::string();
  exchange_.abandon(id);
  if (waited.ok()) return job_status();
  return missing.empty() ? waited : waited.with_context("no answer from rank " + missing);
}

/// The ranks that have not come to an exchange; empty if nobody knows in time.
std::string Engine::name_missing(const ExchangeId& id) {
  tasks_.post([this, id] {
    exchange_.ask_who_is_missing(id);
    role_.notify_callers();
  });
  WaitOptions options;
  options.deadline = now() + kNamingLimit;
  options.heeds_earlier_interrupts = false;
  const auto all = [&] { return exchange_.missing(id, true).has_value(); };
  if (!driver_.wait_until(all, options).ok()) log(LogLevel::kDebug, "not all ranks have answered");
  return join_text(*exchange_.missing(id, false), ", ");
}

void Engine::leave(TimePoint deadline, std::string why) {
  if (!job_status().ok()) return;
  WaitOptions options;
  options.deadline = deadline;
  const Status status = leave_queues(queues_.all(), std::move(options), std::move(why));
  if (!status.ok())
    log(LogLevel::kWarning, "leaving with operations in flight: {}", status.message());
}

Status Engine::leave_set(SetId id, const WaitOptions& options) {
  const SetQueuePtr queue = queues_.find(id);
  if (!queue) return {};
  RONDE_RETURN_IF_ERROR(leave_queues({queue}, options, {}));
  if (job_status().ok()) remove_set(id);
  return {};
}

void Engine::announce_removal(SetId id, bool removed) {
  if (const SetQueuePtr queue = queues_.find(id)) queue->set_removed(removed);
}

Status Engine::leave_queues(std::vector<SetQueuePtr> queues, WaitOptions options, std::string why) {
  const auto left = membership_.leave(queues, std::move(why));
  options.heeds_earlier_interrupts = false;  // leaving is what they ask for
  return driver_.wait_until(
      [&] {
        if (options_.abort->aborted()) return true;
        return left->load() &&
               std::all_of(queues.begin(), queues.end(), [](const SetQueuePtr& queue) {
                 return queue->closed() && queue->outstanding() == 0;
               });
      },
      options);
}

std::vector<std::string> Engine::describe_pending() {
  auto result = std::make_shared<std::vector<std::string>>();
  auto ready = std::make_shared<std::atomic<bool>>(false);
  tasks_.post([this, result, ready] {
    *result = queues_.describe_pending();
    ready->store(true);
    role_.notify_callers();
  });
  WaitOptions options;
  options.deadline = now() + std::chrono::seconds(1);
  options.heeds_earlier_interrupts = false;  // they are for those who wait for results
  if (!driver_.wait_until([&] { return ready->load(); }, options).ok()) return {};
  return *result;
}

}  // namespace ronde
