// The order in which agreed bundles run: by priority, then as agreed. Large bundles are paced: they
// wait until the coordinator releases them, and more urgent bundles agreed later overtake them.
//
// All ranks must run the same bundles in the same order. So the order depends only on the sequence
// of calls, which is that of the coordinator's batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace ronde {

/// Orders bundles of type `Work`. Threads: one at a time.
template <typename Work>
class RunOrder {
 public:
  /// Enters a bundle. All bundles wait for their turn; a paced one also waits for a release.
  void add(Work work, std::int32_t priority, bool paced) {
    waiting_.emplace(Key{-std::int64_t{priority}, ++added_}, Entry{std::move(work), paced});
    paced_ += paced ? 1 : 0;
  }
  /// Lets this many more paced bundles go. A count that is not used up is lost: the coordinator
  /// releases only bundles that wait.
  void release(std::uint32_t bundles) noexcept { released_ = bundles; }
  /// From now on nothing is paced: no more releases will come.
  void open() noexcept { open_ = true; }

  /// The next bundle to run, if any may.
  std::optional<Work> next() {
    if (waiting_.empty()) return std::nullopt;
    const auto first = waiting_.begin();
    const bool paced = first->second.paced;
    if (paced && !open_ && released_ == 0) return std::nullopt;
    if (paced && released_ > 0) --released_;
    paced_ -= paced ? 1 : 0;
    std::optional<Work> work(std::move(first->second.work));
    waiting_.erase(first);
    return work;
  }

  [[nodiscard]] bool empty() const noexcept { return waiting_.empty(); }
  /// How many paced bundles wait.
  [[nodiscard]] std::size_t paced() const noexcept { return paced_; }

 private:
  using Key = std::pair<std::int64_t, std::uint64_t>;  // the least runs next
  struct Entry {
    Work work;
    bool paced;
  };

  std::map<Key, Entry> waiting_;
  std::uint64_t added_ = 0;
  std::size_t paced_ = 0;
  std::uint32_t released_ = 0;
  bool open_ = false;
};

}  // namespace ronde
