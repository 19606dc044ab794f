#include "bindings/runtime/group_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <string>

namespace ronde {

std::uint64_t GroupKeys::next(const std::vector<int>& ranks) {
  const MutexLock lock(mutex_);
  const int count = counts_[ranks]++;
  const std::string text = fmt::format("{}#{}", fmt::join(ranks, ","), count);
  return kGroupKeys | (std::hash<std::string>()(text) >> 3);
}

}  // namespace ronde
