// Memory of one process that all ranks of its groups can see. Tensors in it are reduced and copied
// in place. Its size is address space alone; memory is taken as it is handed out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "backends/shm/memory/memory.h"
#include "core/base/mutex.h"
#include "core/base/status.h"

namespace ronde::shm {

/// This process's own arena. Threads: any.
class Arena : public std::enable_shared_from_this<Arena> {
 public:
  /// Makes one. Errors: kUnavailable.
  static Result<std::shared_ptr<Arena>> create();

  Arena(FileDescriptor memory, Mapping mapping);

  /// Memory of `bytes` zeros on a page border; null where there is none left. It lives as long as
  /// the pointer does, and so does the arena.
  std::shared_ptr<std::byte> allocate(std::size_t bytes) RONDE_EXCLUDES(mutex_);

  [[nodiscard]] int fd() const noexcept { return memory_.get(); }
  [[nodiscard]] std::byte* base() const noexcept { return mapping_.data(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return mapping_.bytes(); }

 private:
  void release(std::size_t offset, std::size_t bytes) noexcept RONDE_EXCLUDES(mutex_);
  bool take(std::size_t bytes, std::size_t& offset) RONDE_EXCLUDES(mutex_);
  void give_back(std::size_t offset, std::size_t bytes) RONDE_EXCLUDES(mutex_);

  const FileDescriptor memory_;
  const Mapping mapping_;
  const pid_t owner_;
  Mutex mutex_;
  std::map<std::size_t, std::size_t> free_ RONDE_GUARDED_BY(mutex_);  ///< Bytes free, by offset.
};

/// An arena as another process sees it.
class ArenaView {
 public:
  /// Its address in the owner, and in this process.
  ArenaView(std::uintptr_t theirs, Mapping mapping) noexcept
      : theirs_(theirs), mapping_(std::move(mapping)) {}

  /// This process's address of the owner's `address`; null if that is not in the arena.
  [[nodiscard]] std::byte* at(const std::byte* address) const noexcept {
    const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(address) - theirs_;
    return offset < mapping_.bytes() ? mapping_.data() + offset : nullptr;
  }

 private:
  std::uintptr_t theirs_;
  Mapping mapping_;
};

}  // namespace ronde::shm
