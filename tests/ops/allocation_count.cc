#include "tests/ops/allocation_count.h"

#include <cstdlib>
#include <new>

namespace {
thread_local long count = 0;
}

void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++count;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new(std::size_t bytes) {
  void* memory = operator new(bytes, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace ronde::test {

long allocation_count() noexcept { return count; }

}  // namespace ronde::test
