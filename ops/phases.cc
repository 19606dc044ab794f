#include "ops/phases.h"

#include <fmt/format.h>

#include <chrono>

#include "core/base/clock.h"

namespace ronde {
namespace {

std::int64_t now_ns() { return std::chrono::nanoseconds(now().time_since_epoch()).count(); }

}  // namespace

std::string Phases::lane_of(int set) {
  return set == 0 ? "phases" : fmt::format("phases of set {}", set);
}

Phase::Phase(Phases* phases, std::string_view name, bool packs)
    : phases_(phases), packs_(packs), start_ns_(phases != nullptr && packs ? now_ns() : 0) {
  if (phases_ != nullptr) phases_->events_.begin(phases_->lane_, name, {});
}

Phase::~Phase() {
  if (phases_ == nullptr) return;
  if (packs_) phases_->pack_ns_ += now_ns() - start_ns_;
  phases_->events_.end(phases_->lane_, {});
}

}  // namespace ronde
