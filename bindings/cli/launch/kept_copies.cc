#include "bindings/cli/launch/kept_copies.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace ronde {
namespace {

/// The first word is the step + 1 once the copy is whole.
std::int64_t step_of(const FileDescriptor& file) {
  std::uint64_t word = 0;
  const bool has_word =
      file.valid() && ::pread(file.get(), &word, sizeof(word), 0) == ssize_t{sizeof(word)};
  return has_word ? static_cast<std::int64_t>(word) - 1 : kNoCopies;
}

}  // namespace

std::int64_t newest_step_of(const CopyFiles& files) {
  return std::max(step_of(files[0]), step_of(files[1]));
}

std::int64_t KeptCopies::add(CopyFiles files, int most) {
  const std::int64_t step = newest_step_of(files);
  if (step == kNoCopies) return step;
  kept_.push_back(std::move(files));
  if (std::cmp_greater(kept_.size(), most)) {
    kept_.erase(std::ranges::min_element(kept_, {}, newest_step_of));
  }
  return step;
}

CopyFiles KeptCopies::take() {
  const auto newest = std::ranges::max_element(kept_, {}, newest_step_of);
  if (newest == kept_.end()) return {};
  CopyFiles taken = std::move(*newest);
  kept_.erase(newest);
  return taken;
}

}  // namespace ronde
