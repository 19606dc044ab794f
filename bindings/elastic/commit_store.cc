#include "bindings/elastic/commit_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <functional>

namespace ronde::elastic {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kWordBytes = kAlignment;  // before the first segment

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::size_t needed_bytes(std::span<const std::size_t> sizes) {
  std::size_t total = kWordBytes;
  for (const std::size_t size : sizes) total += aligned(size);
  return total;
}

std::atomic_ref<std::uint64_t> word_of(const Mapping& memory) {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(memory.data()));
}

Result<std::shared_ptr<const Mapping>> make_memory(std::size_t bytes) {
  RONDE_ASSIGN_OR_RETURN(const FileDescriptor file, make_memory_file("ronde-commit", bytes));
  RONDE_ASSIGN_OR_RETURN(Mapping mapping, map_memory_file(file.get(), bytes));
  return std::shared_ptr<const Mapping>(std::make_shared<const Mapping>(std::move(mapping)));
}

}  // namespace

std::optional<std::uint64_t> CommitStore::Copy::step() const {
  if (!memory) return std::nullopt;
  const std::uint64_t word = word_of(*memory).load(std::memory_order_acquire);
  if (word == 0) return std::nullopt;
  return word - 1;
}

/// Writes of the copy come before a word that declares it whole, and after one that does not.
void CommitStore::Copy::set_word(std::uint64_t word) const {
  if (!memory) return;
  word_of(*memory).store(word, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

std::vector<StoredSegment> CommitStore::Copy::segments() const {
  std::vector<StoredSegment> result;
  std::size_t at = kWordBytes;
  for (const std::size_t size : sizes) {
    result.push_back({memory, {memory->data() + at, size}});
    at += aligned(size);
  }
  return result;
}

CommitStore::Copy& CommitStore::older() {
  return copies_[0].step() <= copies_[1].step() ? copies_[0] : copies_[1];  // none is least
}

std::optional<std::uint64_t> CommitStore::newest() const {
  return std::max(copies_[0].step(), copies_[1].step());
}

Result<std::vector<StoredSegment>> CommitStore::begin(std::span<const std::size_t> sizes) {
  Copy& copy = begun_ != nullptr ? *begun_ : older();
  const std::size_t bytes = needed_bytes(sizes);
  if (!copy.memory || copy.memory->bytes() < bytes) {
    RONDE_ASSIGN_OR_RETURN(copy.memory, make_memory(bytes));
  }
  copy.set_word(0);
  copy.sizes.assign(sizes.begin(), sizes.end());
  begun_ = &copy;
  return copy.segments();
}

Status CommitStore::commit(std::uint64_t step) {
  if (begun_ == nullptr) return {Code::kInvalidArgument, "commit() without a begin()"};
  if (const auto last = newest(); last && step <= *last) {
    return {Code::kInvalidArgument,
            fmt::format("step {} is committed after step {}; allowed: later steps", step, *last)};
  }
  begun_->set_word(step + 1);
  begun_ = nullptr;
  return {};
}

std::vector<std::uint64_t> CommitStore::steps() const {
  std::vector<std::uint64_t> steps;
  for (const Copy& copy : copies_) {
    if (const auto step = copy.step()) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end(), std::greater<>());
  return steps;
}

Result<std::vector<StoredSegment>> CommitStore::read(std::uint64_t step) {
  const auto found = std::find_if(copies_.begin(), copies_.end(),
                                  [&](const Copy& copy) { return copy.step() == step; });
  if (found == copies_.end()) {
    return Status(Code::kInvalidArgument, fmt::format("there is no copy of step {}; there is: {}",
                                                      step, fmt::join(steps(), ", ")));
  }
  for (const Copy& copy : copies_) {
    if (copy.step() > step) copy.set_word(0);
  }
  return found->segments();
}

}  // namespace ronde::elastic
