#include "ops/growing_memory.h"

namespace ronde {

std::byte* GrowingMemory::at_least(std::size_t bytes) {
  if (bytes <= bytes_) return memory_.get();
  memory_.reset();
  bytes_ = 0;
  memory_ = mover_.allocate(bytes);
  bytes_ = bytes;
  return memory_.get();
}

}  // namespace ronde
