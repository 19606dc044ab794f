#include "ops/partial.h"

#include <algorithm>
#include <array>

namespace ronde {

namespace {

constexpr std::size_t kBlockElements = 1024;  // fits the first-level cache in any type

const std::byte* at(const void* base, std::size_t bytes) {
  return static_cast<const std::byte*>(base) + bytes;
}
std::byte* at(void* base, std::size_t bytes) { return static_cast<std::byte*>(base) + bytes; }

// Calls body(begin, count) for consecutive blocks.
template <typename Body>
void for_blocks(std::size_t count, Body body) {
  for (std::size_t begin = 0; begin < count; begin += kBlockElements) {
    body(begin, std::min(kBlockElements, count - begin));
  }
}

/// True for scaled sums of integers, which must not overflow before they are scaled.
bool is_integer_average(const Reduction& what) {
  return !is_floating(what.dtype) && what.dtype != DType::kBool && what.op == ReduceOp::kSum &&
         what.scaling.post != 1.0;
}

DType partial_type(const Reduction& what) {
  if (is_narrow_floating(what.dtype)) return DType::kFloat32;
  if (!is_integer_average(what) || size_of(what.dtype) > 4) return what.dtype;
  return size_of(what.dtype) <= 2 ? DType::kInt32 : DType::kInt64;
}

}  // namespace

PartialReduction::PartialReduction(const Reduction& what, const ReduceKernels& kernels) noexcept
    : what_(what),
      plain_{partial_type(what), what.op, {}, is_rounded_once(what)},
      kernels_(kernels),
      width_(size_of(plain_.dtype)),
      wide_(plain_.dtype != what.dtype),
      raw_(!wide_ && (what.scaling.pre == 1.0 || what.dtype == DType::kBool)) {}

void PartialReduction::load(const void* in, void* partial, std::size_t count) const noexcept {
  Reduction scale{what_.dtype, what_.op, {what_.scaling.pre, 1.0}};
  if (!wide_) return kernels_.reduce(scale, std::array{in}, partial, count);
  if (is_floating(what_.dtype)) {
    kernels_.cast(what_.dtype, in, plain_.dtype, partial, count);
    scale.dtype = plain_.dtype;
    const void* const widened = partial;
    if (scale.scaling.pre != 1.0) kernels_.reduce(scale, std::array{widened}, partial, count);
    return;
  }
  alignas(64) std::array<std::byte, kBlockElements * 4> scaled;  // of the tensor's type
  for_blocks(count, [&](std::size_t begin, std::size_t n) {
    const void* const block = at(in, begin * element());
    kernels_.reduce(scale, std::array{block}, scaled.data(), n);
    kernels_.cast(what_.dtype, scaled.data(), plain_.dtype, at(partial, begin * width_), n);
  });
}

void PartialReduction::fold(const void* partial, const void* in, void* out,
                            std::size_t count) const noexcept {
  if (is_narrow_floating(what_.dtype)) {
    kernels_.accumulate_fp32(what_, static_cast<const float*>(partial), in,
                             static_cast<float*>(out), count);
  } else if (raw_) {
    merge(partial, in, out, count);
  } else {
    alignas(64) std::array<std::byte, kBlockElements * 8> loaded;
    for_blocks(count, [&](std::size_t begin, std::size_t n) {
      load(at(in, begin * element()), loaded.data(), n);
      merge(at(partial, begin * width_), loaded.data(), at(out, begin * width_), n);
    });
  }
}

void PartialReduction::merge(const void* a, const void* b, void* out,
                             std::size_t count) const noexcept {
  kernels_.reduce(plain_, std::array{a, b}, out, count);
}

void PartialReduction::finish(const void* partial, void* out, std::size_t count) const noexcept {
  Reduction scale = plain_;
  scale.scaling.post = what_.scaling.post;
  if (!wide_) {
    if (scale.scaling.post == 1.0 && partial == out) return;
    kernels_.reduce(scale, std::array{partial}, out, count);
    return;
  }
  alignas(64) std::array<std::byte, kBlockElements * 8> scaled;
  for_blocks(count, [&](std::size_t begin, std::size_t n) {
    const void* block = at(partial, begin * width_);
    kernels_.reduce(scale, std::array{block}, scaled.data(), n);
    narrow(scaled.data(), at(out, begin * element()), n);
  });
}

/// Saturates, which a cast between integers does not.
void PartialReduction::narrow(const void* partial, void* out, std::size_t count) const noexcept {
  if (is_floating(plain_.dtype))
    return kernels_.cast(plain_.dtype, partial, what_.dtype, out, count);
  alignas(64) std::array<double, kBlockElements> values;
  kernels_.cast(plain_.dtype, partial, DType::kFloat64, values.data(), count);
  kernels_.cast(DType::kFloat64, values.data(), what_.dtype, out, count);
}

void PartialReduction::finish_fold(void* partial, const void* in, void* out,
                                   std::size_t count) const noexcept {
  if (raw_) {
    const void* left = partial;
    kernels_.reduce(last_sums(), std::array{left, in}, out, count);
    return;
  }
  fold(partial, in, partial, count);
  finish(partial, out, count);
}

}  // namespace ronde
