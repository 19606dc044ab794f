// A byte ring in shared memory with one writer and one reader.
#pragma once

#include <cstddef>

#include "backends/shm/memory/layout.h"

namespace ronde::shm {

/// One end's view of a ring. Threads: one writer and one reader, each with its own view.
class Ring {
 public:
  Ring(RingControl& control, std::byte* data, std::size_t capacity) noexcept
      : control_(&control), data_(data), capacity_(capacity) {}

  /// Writes as much of `bytes` as fits now; returns how much that was. Blocks: never.
  std::size_t push(const std::byte* from, std::size_t bytes) noexcept;

  /// Reads at most `bytes` of what is there; returns how much that was. Blocks: never.
  std::size_t pop(std::byte* to, std::size_t bytes) noexcept;

 private:
  RingControl* control_;
  std::byte* data_;
  std::size_t capacity_;
};

}  // namespace ronde::shm
