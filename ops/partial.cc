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

}  // namespace

PartialReduction::PartialReduction(const Reduction& what, const ReduceKernels& kernels) noexcept
    : what_(what),
      plain_{what.dtype, what.op, {}},
      kernels_(kernels),
      width_(size_of(what.dtype)),
      wide_(is_narrow_floating(what.dtype)),
      raw_(!wide_ && (what.scaling.pre == 1.0 || what.dtype == DType::kBool)) {
  if (!wide_) return;
  plain_.dtype = DType::kFloat32;
  width_ = size_of(DType::kFloat32);
}

void PartialReduction::load(const void* in, void* partial, std::size_t count) const noexcept {
  Reduction scale = plain_;
  scale.scaling.pre = what_.scaling.pre;
  const void* source = in;
  if (wide_) {
    kernels_.cast(what_.dtype, in, DType::kFloat32, partial, count);
    if (scale.scaling.pre == 1.0) return;
    source = partial;
  }
  kernels_.reduce(scale, std::array{source}, partial, count);
}

void PartialReduction::fold(const void* partial, const void* in, void* out,
                            std::size_t count) const noexcept {
  if (wide_) {
    kernels_.accumulate_fp32(what_, static_cast<const float*>(partial), in,
                             static_cast<float*>(out), count);
  } else if (raw_) {
    merge(partial, in, out, count);
  } else {
    alignas(64) std::array<std::byte, kBlockElements * 8> scaled;
    for_blocks(count, [&](std::size_t begin, std::size_t n) {
      load(at(in, begin * width_), scaled.data(), n);
      merge(at(partial, begin * width_), scaled.data(), at(out, begin * width_), n);
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
  alignas(64) std::array<float, kBlockElements> scaled;
  for_blocks(count, [&](std::size_t begin, std::size_t n) {
    const void* block = at(partial, begin * width_);
    kernels_.reduce(scale, std::array{block}, scaled.data(), n);
    kernels_.cast(DType::kFloat32, scaled.data(), what_.dtype, at(out, begin * element()), n);
  });
}

void PartialReduction::finish_fold(void* partial, const void* in, void* out,
                                   std::size_t count) const noexcept {
  if (raw_) {
    Reduction last = plain_;
    last.scaling.post = what_.scaling.post;
    const void* left = partial;
    kernels_.reduce(last, std::array{left, in}, out, count);
    return;
  }
  fold(partial, in, partial, count);
  finish(partial, out, count);
}

}  // namespace ronde
