// The user's threads that wait inside Ronde: their stacks belong into a dump.
#pragma once

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <vector>

namespace ronde::diagnosis {

/// Threads: any. More waiting threads than there are places are left out.
class WaitingCallers {
 public:
  /// Notes the calling thread while it lives. Costs one atomic exchange.
  class Note {
   public:
    explicit Note(WaitingCallers& callers) noexcept {
      thread_local const int kThread = ::gettid();
      for (std::size_t i = 0; i < kTried; ++i) {
        auto& place = callers.places_[(static_cast<std::size_t>(kThread) + i) % kPlaces];
        int none = 0;
        if (!place.compare_exchange_strong(none, kThread, std::memory_order_relaxed)) continue;
        place_ = &place;
        return;
      }
    }
    ~Note() {
      if (place_ != nullptr) place_->store(0, std::memory_order_relaxed);
    }
    Note(const Note&) = delete;
    Note& operator=(const Note&) = delete;

   private:
    std::atomic<int>* place_ = nullptr;
  };

  /// The threads that wait now.
  [[nodiscard]] std::vector<int> tids() const {
    std::vector<int> found;
    for (const auto& place : places_) {
      if (const int tid = place.load(std::memory_order_relaxed); tid != 0) found.push_back(tid);
    }
    return found;
  }

 private:
  static constexpr std::size_t kPlaces = 32;
  static constexpr std::size_t kTried = 4;
  std::array<std::atomic<int>, kPlaces> places_{};
};

}  // namespace ronde::diagnosis
