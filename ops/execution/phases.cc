#include "ops/execution/phases.h"

#include <fmt/format.h>

#include <chrono>

#include "core/base/clock.h"

namespace ronde {
namespace {

constexpr std::size_t kWorthTelling = std::size_t{4} << 10;

std::int64_t now_ns() { return std::chrono::nanoseconds(now().time_since_epoch()).count(); }

std::string of_set(std::string_view lane, int set) {
  return set == 0 ? std::string(lane) : fmt::format("{} of set {}", lane, set);
}

}  // namespace

PhaseLanes::PhaseLanes(int set)
    : own(of_set("phases", set)),
      device(of_set("gpu", set)),
      beside(of_set("phases between hosts", set)) {}

PhaseObserver* Phases::for_plane() noexcept {
  return own_.bytes() < kWorthTelling ? nullptr : &own_;
}

Packing::Packing(Phases* phases, std::string_view name)
    : phases_(phases),
      phase_(phases == nullptr ? nullptr : &phases->observer(), name),
      start_ns_(phases == nullptr ? 0 : now_ns()) {}

Packing::~Packing() {
  if (phases_ != nullptr) phases_->pack_ns_ += now_ns() - start_ns_;
}

}  // namespace ronde
