#include "ops/local_work.h"

#include <array>
#include <cstring>

namespace ronde {

namespace {

bool reduces(Collective kind) {
  return kind == Collective::kAllreduce || kind == Collective::kReduce ||
         kind == Collective::kReduceScatter;
}

void move_segment(const Segment& segment, const Reduction* reduction,
                  const ReduceKernels& kernels) {
  if (segment.out == nullptr || segment.bytes == 0) return;
  if (segment.in == nullptr) {
    std::memset(segment.out, 0, segment.bytes);
  } else if (reduction != nullptr) {
    const void* in = segment.in;
    kernels.reduce(*reduction, std::array{in}, segment.out,
                   segment.bytes / size_of(reduction->dtype));
  } else if (segment.in != segment.out) {
    std::memcpy(segment.out, segment.in, segment.bytes);
  }
}

}  // namespace

void run_local(const Work& work, const ReduceKernels& kernels) {
  const Scaling& scaling = work.reduction.scaling;
  const bool scaled = reduces(work.kind) && (scaling.pre != 1.0 || scaling.post != 1.0);
  for (const Segment& segment : work.segments) {
    move_segment(segment, scaled ? &work.reduction : nullptr, kernels);
  }
}

}  // namespace ronde
