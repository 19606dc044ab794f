#include "bindings/elastic/commit_store.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <utility>

#include "core/base/join_text.h"

namespace ronde::elastic {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kWordBytes = kAlignment;                   // before the sizes
constexpr std::uint64_t kMostSegments = std::uint64_t{1} << 20;  // of copies of other processes

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Bytes before the first segment.
std::size_t header_bytes(std::size_t segments) {
  return kWordBytes + aligned((segments + 1) * sizeof(std::uint64_t));
}

std::size_t needed_bytes(std::span<const std::size_t> sizes) {
  std::size_t total = header_bytes(sizes.size());
  for (const std::size_t size : sizes) total += aligned(size);
  return total;
}

std::atomic_ref<std::uint64_t> word_of(const Mapping& memory) {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(memory.data()));
}

/// The number of segments, then their sizes.
std::uint64_t* table_of(const Mapping& memory) {
  return reinterpret_cast<std::uint64_t*>(memory.data() + kWordBytes);
}

Result<std::shared_ptr<const Mapping>> map_memory(int file, std::size_t bytes) {
  RONDE_ASSIGN_OR_RETURN(Mapping mapping, map_for_huge_pages(file, bytes));
  return std::shared_ptr<const Mapping>(std::make_shared<const Mapping>(std::move(mapping)));
}

Status foreign() {
  return {Code::kInvalidArgument, "the memory file is no copy of a rank's state"};
}

/// The size of a file that a CommitStore made; nothing for others.
std::optional<std::size_t> size_of(int file) {
  struct stat facts {};
  if (::fstat(file, &facts) != 0) return std::nullopt;
  const auto bytes = static_cast<std::size_t>(facts.st_size);
  if (bytes < header_bytes(0) || !is_memory_file(file, bytes)) return std::nullopt;
  return bytes;
}

/// The sizes of a copy's segments, if they fit into its memory.
std::optional<std::vector<std::size_t>> read_sizes(const Mapping& memory) {
  const std::uint64_t* const table = table_of(memory);
  if (table[0] > kMostSegments || header_bytes(table[0]) > memory.bytes()) return std::nullopt;
  std::vector<std::size_t> sizes(table + 1, table + 1 + table[0]);
  std::size_t left = memory.bytes() - header_bytes(sizes.size());
  for (const std::size_t size : sizes) {
    if (size > left || aligned(size) > left) return std::nullopt;
    left -= aligned(size);
  }
  return sizes;
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

void CommitStore::Copy::write_sizes() const {
  std::uint64_t* const table = table_of(*memory);
  table[0] = sizes.size();
  std::copy(sizes.begin(), sizes.end(), table + 1);
}

std::vector<StoredSegment> CommitStore::Copy::segments() const {
  std::vector<StoredSegment> result;
  std::size_t at = header_bytes(sizes.size());
  for (const std::size_t size : sizes) {
    result.push_back({memory, {memory->data() + at, size}});
    at += aligned(size);
  }
  return result;
}

int CommitStore::older() const {
  return copies_[0].step() <= copies_[1].step() ? 0 : 1;  // none is least
}

std::optional<std::uint64_t> CommitStore::newest() const {
  return std::max(copies_[0].step(), copies_[1].step());
}

Status CommitStore::adopt(int copy, FileDescriptor file) {
  const auto bytes = size_of(file.get());
  if (!bytes) return foreign();
  RONDE_ASSIGN_OR_RETURN(auto memory, map_memory(file.get(), *bytes));
  auto sizes = read_sizes(*memory);
  if (!sizes) return foreign();
  copies_.at(static_cast<std::size_t>(copy)) = {
      std::move(file), std::move(memory), std::move(*sizes), true, {}};
  return {};
}

Status CommitStore::set_file_hook(FileHook hook) {
  hook_ = std::move(hook);
  for (int copy = 0; copy < 2; ++copy) {
    const FileDescriptor& file = copies_.at(static_cast<std::size_t>(copy)).file;
    if (file.valid()) RONDE_RETURN_IF_ERROR(hook_(copy, file.get()));
  }
  return {};
}

/// The copy's memory is replaced where it is too small.
Status CommitStore::make_room(int copy, std::size_t bytes) {
  Copy& one = copies_.at(static_cast<std::size_t>(copy));
  if (one.memory && one.memory->bytes() >= bytes) return {};
  RONDE_ASSIGN_OR_RETURN(FileDescriptor file, make_memory_file("ronde-commit", bytes));
  RONDE_ASSIGN_OR_RETURN(auto memory, map_memory(file.get(), bytes));
  if (hook_) RONDE_RETURN_IF_ERROR(hook_(copy, file.get()));
  one = {std::move(file), std::move(memory), {}, true, {}};
  return {};
}

Result<std::vector<StoredSegment>> CommitStore::begin(std::span<const std::size_t> sizes) {
  const int chosen = begun_ != kNone ? begun_ : older();
  RONDE_RETURN_IF_ERROR(make_room(chosen, needed_bytes(sizes)));
  Copy& copy = copies_.at(static_cast<std::size_t>(chosen));
  copy.set_word(0);
  copy.sizes.assign(sizes.begin(), sizes.end());
  copy.write_sizes();
  begun_ = chosen;
  return copy.segments();
}

Status CommitStore::commit(std::uint64_t step) {
  if (begun_ == kNone) return {Code::kInvalidArgument, "commit() without a begin()"};
  if (const auto last = newest(); last && step <= *last) {
    return {Code::kInvalidArgument,
            fmt::format("step {} is committed after step {}; allowed: later steps", step, *last)};
  }
  Copy& copy = copies_.at(static_cast<std::size_t>(begun_));
  copy.set_word(step + 1);
  if (std::exchange(copy.is_new, false)) copy.mover.move(copy.memory);
  begun_ = kNone;
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
                                                      step, join_text(steps(), ", ")));
  }
  for (const Copy& copy : copies_) {
    if (copy.step() > step) copy.set_word(0);
  }
  return found->segments();
}

void CommitStore::clear() {
  for (const Copy& copy : copies_) copy.set_word(0);
  begun_ = kNone;
}

}  // namespace ronde::elastic
