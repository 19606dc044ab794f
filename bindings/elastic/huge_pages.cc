#include "bindings/elastic/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/thread_name.h"

namespace ronde::elastic {
namespace {

constexpr int kCollapse = 25;  // MADV_COLLAPSE, which older headers lack

std::byte* aligned(std::byte* address) {
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  return address + (kHugePageBytes - number % kHugePageBytes) % kHugePageBytes;
}

/// The kernel lets other threads use the memory between two pages.
void collapse(const std::atomic<bool>& stopped, const Mapping& memory) {
  for (std::size_t at = 0; at + kHugePageBytes <= memory.bytes(); at += kHugePageBytes) {
    if (stopped) return;
    (void)::madvise(memory.data() + at, kHugePageBytes, kCollapse);
  }
}

}  // namespace

/// Reserves addresses for one page more, and maps the file inside.
Result<Mapping> map_for_huge_pages(int file, std::size_t bytes) {
  if (bytes < kHugePageBytes) return map_memory_file(file, bytes);
  const std::size_t reserved = bytes + kHugePageBytes;
  void* const memory =
      ::mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return map_memory_file(file, bytes);
  auto* const begin = static_cast<std::byte*>(memory);
  std::byte* const chosen = aligned(begin);
  void* const mapped = ::mmap(chosen, bytes, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file, 0);
  if (mapped == MAP_FAILED) {
    ::munmap(begin, reserved);
    return map_memory_file(file, bytes);
  }
  constexpr std::size_t kPage = 4096;
  std::byte* const end = chosen + (bytes + kPage - 1) / kPage * kPage;
  if (chosen > begin) ::munmap(begin, static_cast<std::size_t>(chosen - begin));
  if (end < begin + reserved) ::munmap(end, static_cast<std::size_t>(begin + reserved - end));
  return Mapping(chosen, bytes);
}

HugePageMover& HugePageMover::operator=(HugePageMover&& other) noexcept {
  stop();
  progress_ = std::move(other.progress_);
  return *this;
}

void HugePageMover::stop() noexcept {
  if (progress_) progress_->stopped = true;
}

void HugePageMover::move(std::shared_ptr<const Mapping> memory) {
  if (memory->bytes() < kHugePageBytes) return;
  stop();
  progress_ = std::make_shared<Progress>();
  const SignalsBlocked blocked;
  try {
    std::thread([memory = std::move(memory), progress = progress_] {
      collapse(progress->stopped, *memory);
      progress->ended = true;
      progress->ended.notify_all();
    }).detach();
  } catch (const std::system_error&) {  // no thread is left: the memory stays as it is
    progress_.reset();
  }
}

void HugePageMover::wait() const {
  if (progress_) progress_->ended.wait(false);
}

}  // namespace ronde::elastic
