#include "ops/execution/phases.h"

#include <fmt/format.h>

#include "core/base/clock.h"

namespace ronde {
namespace {

std::int64_t steady_now_ns() { return to_ns(now()); }

std::string of_set(std::string_view track, int set) {
  return set == 0 ? std::string(track) : fmt::format("{} of set {}", track, set);
}

}  // namespace

PhaseTracks::PhaseTracks(int set)
    : own(of_set("phases", set)),
      device(of_set("gpu", set)),
      beside(of_set("phases between hosts", set)) {}

void Phases::Track::begin(std::string_view phase) {
  events_.begin(name_, phase, {});
  if (phase == kPackPhase || phase == kUnpackPhase) packing_since_ns_ = steady_now_ns();
}

void Phases::Track::end() {
  events_.end(name_, {});
  if (packing_since_ns_ == 0) return;
  pack_ns_ += steady_now_ns() - packing_since_ns_;
  packing_since_ns_ = 0;
}

}  // namespace ronde
