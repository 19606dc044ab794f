// Who is inside an object that another thread may want to destroy.
#pragma once

#include <atomic>

namespace ronde {

/// Counts the calling thread among those inside while it lives.
class Inside {
 public:
  explicit Inside(std::atomic<int>& count) noexcept : count_(count) {
    count_.fetch_add(1, std::memory_order_relaxed);
  }
  ~Inside() { count_.fetch_sub(1, std::memory_order_release); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  std::atomic<int>& count_;
};

}  // namespace ronde
