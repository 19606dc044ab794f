#include "ops/execution/bundle_tracer.h"

#include "core/base/collective.h"

namespace ronde {

void BundleTracer::begin(EventSink& events, const Bundle& bundle, const TracedWork& work) {
  names_.clear();
  for (const BundleTensor& tensor : bundle.tensors) names_.push_back(tensor.name);
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
