#include "bindings/runtime/groups/process_set_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/base/join_text.h"

namespace ronde {

ProcessSetTable::ProcessSetTable(int size) : size_(size) {
  std::vector<int> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  sets_[kGlobalSet].ranks = std::move(all);
}

Status ProcessSetTable::check_ranks(const std::vector<int>& ranks) const {
  if (ranks.empty()) return {Code::kInvalidArgument, "a process set needs at least one rank"};
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0 || ranks[i] >= size_) {
      return {Code::kInvalidArgument,
              fmt::format("rank {} is not in the job; allowed: 0 to {}", ranks[i], size_ - 1)};
    }
    if (i > 0 && ranks[i] == ranks[i - 1]) {
      return {Code::kInvalidArgument, fmt::format("rank {} is named twice", ranks[i])};
    }
  }
  return {};
}

Status ProcessSetTable::check_new(const std::vector<int>& ranks) const {
  RONDE_RETURN_IF_ERROR(check_ranks(ranks));
  MutexLock lock(mutex_);
  for (const auto& [id, existing] : sets_) {
    if (existing.ranks == ranks) {
      return {Code::kInvalidArgument, fmt::format("process set {} has these ranks already: {}",
                                                  existing.number, join_text(ranks, ", "))};
    }
  }
  return {};
}

SetId ProcessSetTable::add(std::vector<int> ranks) {
  MutexLock lock(mutex_);
  sets_[next_] = {std::move(ranks), take_number()};
  return next_++;
}

SetId ProcessSetTable::take_number() {
  if (free_numbers_.empty()) return next_number_++;
  const SetId number = free_numbers_.front();
  free_numbers_.pop();
  return number;
}

void ProcessSetTable::skip() {
  MutexLock lock(mutex_);
  ++next_;
}

SetId ProcessSetTable::next() const {
  MutexLock lock(mutex_);
  return next_;
}

SetId ProcessSetTable::next_number() const {
  MutexLock lock(mutex_);
  return free_numbers_.empty() ? next_number_ : free_numbers_.front();
}

SetId ProcessSetTable::next_private() const {
  MutexLock lock(mutex_);
  return next_private_;
}

void ProcessSetTable::add_private(SetId id, std::vector<int> ranks) {
  MutexLock lock(mutex_);
  private_sets_[id] = std::move(ranks);
  next_private_ = id + 1;
}

void ProcessSetTable::remove(SetId id) {
  MutexLock lock(mutex_);
  if (const auto found = sets_.find(id); found != sets_.end()) {
    free_numbers_.push(found->second.number);
    sets_.erase(found);
  }
  private_sets_.erase(id);
}

Result<std::vector<int>> ProcessSetTable::ranks(SetId id) const {
  MutexLock lock(mutex_);
  if (const auto found = sets_.find(id); found != sets_.end()) return found->second.ranks;
  if (const auto found = private_sets_.find(id); found != private_sets_.end()) return found->second;
  return Status(Code::kInvalidArgument, fmt::format("there is no process set with id {}", id));
}

Result<SetId> ProcessSetTable::number(SetId id) const {
  MutexLock lock(mutex_);
  if (const auto found = sets_.find(id); found != sets_.end()) return found->second.number;
  if (private_sets_.contains(id)) return id;
  return Status(Code::kInvalidArgument, fmt::format("there is no process set with id {}", id));
}

std::vector<SetId> ProcessSetTable::ids() const {
  MutexLock lock(mutex_);
  std::vector<SetId> all;
  for (const auto& [id, set] : sets_) all.push_back(id);
  return all;
}

}  // namespace ronde
