#include "ops/communicator/local.h"

#include <array>
#include <cstring>
#include <utility>

namespace ronde {
namespace {

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

LocalCommunicator::LocalCommunicator(std::shared_ptr<const ReduceKernels> kernels)
    : Communicator({.name = "self",
                    .supports = SupportTable::of([](auto...) { return true; }),
                    .native_first = true}),
      kernels_(std::move(kernels)) {}

Status LocalCommunicator::run(const Work& work, DeviceStream /*stream*/,
                              const AbortToken& /*abort*/) {
  const Scaling& scaling = work.reduction.scaling;
  const bool scaled = traits_of(work.kind).reduces && (scaling.pre != 1.0 || scaling.post != 1.0);
  for (const Segment& segment : work.segments) {
    move_segment(segment, scaled ? &work.reduction : nullptr, *kernels_);
  }
  return {};
}

}  // namespace ronde
