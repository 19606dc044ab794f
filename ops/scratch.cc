#include "ops/scratch.h"

#include <new>

namespace ronde {

namespace {
constexpr std::align_val_t kBlockAlignment{64};
}

void Scratch::Free::operator()(std::byte* memory) const noexcept {
  ::operator delete(memory, kBlockAlignment);
}

std::byte* Scratch::block(std::size_t index, std::size_t bytes) {
  Block& block = blocks_.at(index);
  if (block.bytes < bytes) {
    block.memory.reset();
    block.bytes = 0;
    block.memory.reset(static_cast<std::byte*>(::operator new(bytes, kBlockAlignment)));
    block.bytes = bytes;
  }
  return block.memory.get();
}

}  // namespace ronde
