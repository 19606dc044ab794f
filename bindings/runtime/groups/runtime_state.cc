#include "bindings/runtime/groups/runtime_state.h"

#include <sys/mman.h>

namespace ronde {
namespace {

constexpr std::size_t kBytes = 4096;

}  // namespace

ForkMark::ForkMark() {
  void* page = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (::madvise(page, kBytes, MADV_WIPEONFORK) != 0) {  // Linux before 4.14
    ::munmap(page, kBytes);
    return;
  }
  page_ = static_cast<volatile char*>(page);
  *page_ = 1;
}

ForkMark::~ForkMark() {
  if (page_ != nullptr) ::munmap(const_cast<char*>(page_), kBytes);
}

Status forked_status() {
  return {Code::kNotInitialized,
          "this process was forked after init() and is no member of the job; call init() in "
          "processes that were started for it"};
}

bool RuntimeState::end() noexcept { return !forked() && !ended_.exchange(true); }

Status RuntimeState::why_unusable() const {
  if (forked()) return forked_status();
  return {Code::kNotInitialized, "the runtime has been shut down; call init() again"};
}

}  // namespace ronde
