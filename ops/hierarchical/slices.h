// The schedule of allreduces in two levels: slices of a tensor are reduced inside hosts, between
// hosts and gathered inside, several of them at a time.
#pragma once

#include <algorithm>
#include <cstddef>

#include "core/base/status.h"

namespace ronde {

/// Slices that are under way at the same time.
inline constexpr std::size_t kInFlight = 2;

/// The steps of one allreduce on one rank, by the number of the slice. Threads: one.
class SliceSteps {
 public:
  virtual ~SliceSteps() = default;
  /// Reduces and scatters a slice inside the host. What follows may begin in another thread.
  virtual Status reduce_inside(std::size_t slice) = 0;
  /// Returns when this rank's chunk of the slice has been reduced between hosts.
  virtual Status reduce_between(std::size_t slice) = 0;
  /// Gathers the slice inside the host.
  virtual Status gather_inside(std::size_t slice) = 0;
};

/// Takes all slices through the steps: while one is between hosts, the next is reduced inside.
/// The order is the same on all ranks. Errors: the first of a step.
inline Status run_slices(std::size_t slices, SliceSteps& steps) {
  for (std::size_t i = 0; i < std::min(slices, kInFlight); ++i) {
    RONDE_RETURN_IF_ERROR(steps.reduce_inside(i));
  }
  for (std::size_t i = 0; i < slices; ++i) {
    RONDE_RETURN_IF_ERROR(steps.reduce_between(i));
    RONDE_RETURN_IF_ERROR(steps.gather_inside(i));
    if (i + kInFlight < slices) RONDE_RETURN_IF_ERROR(steps.reduce_inside(i + kInFlight));
  }
  return {};
}

}  // namespace ronde
