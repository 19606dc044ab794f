#include "core/ports/phases.h"

#include <fmt/format.h>

namespace ronde {

std::size_t PhaseSteps::worth(std::size_t stretch_bytes) const noexcept {
  return (observer_->bytes() + stretch_bytes / 2) / stretch_bytes;
}

void PhaseSteps::tell() {
  const std::size_t step = step_++;
  if (step == end_ && stretch_ < stretches_) {
    if (stretch_ > 0) observer_->end();
    end_ = ++stretch_ * steps_ / stretches_;
    observer_->begin(end_ == step + 1
                         ? fmt::format("{} {} of {}", name_, end_, steps_)
                         : fmt::format("{} {}-{} of {}", name_, step + 1, end_, steps_));
  }
  last_ = step + 1 == end_;
}

}  // namespace ronde
