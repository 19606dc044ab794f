#include "ops/execution/weighting.h"

#include <cstring>
#include <utility>

#include "ops/partial.h"

namespace ronde {
namespace {

/// Codecs know the bundle's own type.
DType product_type(const Bundle& bundle) {
  const bool wide = is_narrow_floating(bundle.dtype) && bundle.compression.empty();
  return wide ? DType::kFloat32 : bundle.dtype;
}

/// in * factor as `to`. A factor of 0 gives zeros, even for inputs that are NaN.
void multiply(const Segment& segment, const Reduction& what, DType type, std::byte* to,
              const ReduceKernels& kernels) {
  const std::size_t count = segment.bytes / size_of(what.dtype);
  if (what.scaling.pre == 0.0) {
    std::memset(to, 0, count * size_of(type));
    return;
  }
  if (type != what.dtype) return PartialReduction(what, kernels).load(segment.in, to, count);
  const void* const in = segment.in;
  kernels.reduce(what, {&in, 1}, to, count);
}

}  // namespace

Reduction sum_of_products(const Bundle& bundle, DType dtype) {
  return {dtype, ReduceOp::kSum, {1.0, bundle.postscale}, true};
}

double product_factor(const Bundle& bundle, const BundleTensor& tensor) {
  return bundle.prescale * tensor.weight;
}

Work Weighting::begin(const Bundle& bundle, Work work) {
  const DType type = product_type(bundle);
  const bool wide = type != bundle.dtype;
  const std::size_t widening = size_of(type) / size_of(bundle.dtype);
  std::size_t room = 0;
  for (const Segment& segment : work.segments) {
    if (wide || segment.out == nullptr) room += segment.bytes * widening;
  }
  std::byte* next = scratch_.block(0, room);
  products_.clear();
  for (std::size_t i = 0; i < work.segments.size(); ++i) {
    const Segment& segment = work.segments[i];
    const std::size_t bytes = segment.bytes * widening;
    std::byte* to = segment.out;
    if (wide || to == nullptr) to = std::exchange(next, next + bytes);
    const Reduction product{
        bundle.dtype, ReduceOp::kSum, {product_factor(bundle, bundle.tensors[i]), 1.0}};
    if (segment.in != nullptr) multiply(segment, product, type, to, *kernels_);
    products_.push_back(
        {segment.in == nullptr ? nullptr : to, segment.out == nullptr ? nullptr : to, bytes});
  }
  work.reduction = sum_of_products(bundle, type);
  work.segments = products_;
  work.bytes *= widening;
  return work;
}

void Weighting::end(const Bundle& bundle, const Work& work) {
  const DType type = product_type(bundle);
  if (type == bundle.dtype) return;
  for (std::size_t i = 0; i < products_.size(); ++i) {
    const Segment& segment = work.segments[i];
    if (segment.out == nullptr) continue;
    kernels_->cast(type, products_[i].out, bundle.dtype, segment.out,
                   segment.bytes / size_of(bundle.dtype));
  }
}

}  // namespace ronde
