#include "ops/communicator/bundle_tracer.h"

#include <fmt/format.h>

#include "core/base/clock.h"
#include "core/base/collective.h"

namespace ronde {
namespace {

std::int64_t steady_now_ns() { return to_ns(now()); }

std::string of_set(std::string_view track, std::string_view set) {
  return set.empty() ? std::string(track) : fmt::format("{} of {}", track, set);
}

}  // namespace

PhaseTracks::PhaseTracks(std::string_view set)
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

void BundleTracer::begin(EventSink& events, const Bundle& bundle, const TracedWork& work) {
  names_.clear();
  for (const BundleTensor& tensor : bundle.tensors) {
    names_.push_back(tensor.track.empty() ? tensor.name : tensor.track);
  }
  events.begin_all(names_, traits_of(bundle.kind).event(),
                   {.collective = bundle.kind,
                    .bytes = work.bytes,
                    .algorithm = work.algorithm,
                    .backend = work.path,
                    .tensors = static_cast<int>(bundle.tensors.size()),
                    .bundle = bundle.id,
                    .partition = bundle.partition});
  if (work.ratio) events.counter("compression ratio", *work.ratio);
}

}  // namespace ronde
