#include "bindings/runtime/groups/raw_group.h"

#include <fmt/format.h>
#include <time.h>

#include <limits>
#include <string>
#include <utility>

#include "core/base/join_text.h"

namespace ronde {
namespace {

/// The group's name in the flight recorder, which keeps 56 bytes.
std::string name_of(const std::vector<int>& ranks) {
  constexpr std::size_t kMost = 56;
  std::string name = fmt::format("group of ranks {}", join_text(ranks, ","));
  if (name.size() > kMost) name.replace(kMost - 3, std::string::npos, "...");
  return name;
}

/// Below zero, where no process set is: the group's place in the flight recorder.
std::int32_t set_of(std::uint64_t key) noexcept {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();
  return -1 - static_cast<std::int32_t>(key % kMost);
}

/// The steady clock at the kernel's last tick, at most some milliseconds ago. It costs a third of
/// the exact clock; two exact readings would slow down small operations.
TimePoint coarse_now() noexcept {
  timespec at{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &at);
  return TimePoint(std::chrono::seconds(at.tv_sec) + std::chrono::nanoseconds(at.tv_nsec));
}

}  // namespace

RawGroup::RawGroup(std::unique_ptr<Executor> executor, RawGroupOptions options)
    : executor_(std::move(executor)),
      options_(std::move(options)),
      reserved_(options_.records->reserve(name_of(options_.ranks), set_of(options_.key))) {}

RawGroup::~RawGroup() { options_.records->release(reserved_); }

Status RawGroup::run(const Bundle& bundle) {
  if (options_.abort->aborted()) return options_.abort->status();
  if (options_.mark->forked()) return forked_status();
  const RecordTicket record = options_.records->begin_in(
      reserved_,
      {.kind = static_cast<int>(bundle.kind), .bytes = input_bytes(bundle), .call = ++calls_},
      coarse_now());
  Status status = executor_->execute(bundle, *options_.abort);
  options_.records->end(record, status.code(), coarse_now());
  return status;
}

}  // namespace ronde
