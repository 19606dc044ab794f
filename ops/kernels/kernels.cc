// ReduceKernels over the entries of this folder: picks the family by element type, and leaves out
// work that changes nothing.
#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "ops/kernels/entries.h"
#include "ops/kernels/factory.h"

namespace ronde {
namespace {

using kernels::ReduceCall;

/// True where the result is the only input, bit for bit.
bool is_copy(const ReduceCall& call) {
  const bool scaled = call.pre != 1.0 || call.post != 1.0;
  return call.inputs.size() == 1 && !scaled && call.dtype != DType::kBool;
}

void run(const ReduceCall& call) {
  assert(!call.inputs.empty() && is_defined(call.op, call.dtype));
  if (call.count == 0) return;
  if (is_copy(call)) {
    if (call.out != call.inputs[0]) {
      std::memcpy(call.out, call.inputs[0], call.count * size_of(call.dtype));
    }
    return;
  }
  switch (call.dtype) {
    case DType::kFloat16:
    case DType::kBfloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      return kernels::reduce_floating(call);
    case DType::kFloat8E4m3:
    case DType::kFloat8E5m2:
      return kernels::reduce_float8(call);
    default:
      return kernels::reduce_integer(call);
  }
}

bool is_half(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBfloat16; }

constexpr std::size_t kBlock = 512;  // fp32 elements that stay in the cache

/// 16-bit types to fp64, by blocks of fp32.
void widen_to_double(DType from, const void* in, double* out, std::size_t count) {
  const auto* halves = static_cast<const std::byte*>(in);
  alignas(64) std::array<float, kBlock> block;
  for (std::size_t at = 0; at < count; at += kBlock) {
    const std::size_t some = std::min(kBlock, count - at);
    kernels::widen_half(from, halves + at * size_of(from), block.data(), some);
    kernels::widen_float(block.data(), out + at, some);
  }
}

/// Converts fp64 to 16-bit types, rounded once: values that fp32 cannot hold become odd.
void narrow_from_double(const double* in, DType to, void* out, std::size_t count) {
  auto* halves = static_cast<std::byte*>(out);
  alignas(64) std::array<float, kBlock> block;
  for (std::size_t at = 0; at < count; at += kBlock) {
    const std::size_t some = std::min(kBlock, count - at);
    kernels::narrow_double_to_odd(in + at, block.data(), some);
    kernels::narrow_half(block.data(), to, halves + at * size_of(to), some);
  }
}

class SimdKernels final : public ReduceKernels {
 public:
  void reduce(const Reduction& what, std::span<const void* const> inputs, void* out,
              std::size_t count) const noexcept override {
    run({what.dtype, what.op, what.scaling.pre, what.scaling.post, inputs, out, count, false,
         what.rounds_once});
  }

  void reduce_streaming(const Reduction& what, std::span<const void* const> inputs, void* out,
                        std::size_t count) const noexcept override {
    run({what.dtype, what.op, what.scaling.pre, what.scaling.post, inputs, out, count, true,
         what.rounds_once});
  }

  void accumulate_fp32(const Reduction& what, const float* partial, const void* input, float* out,
                       std::size_t count) const noexcept override {
    assert(is_narrow_floating(what.dtype));
    const kernels::AccumulateCall call{what.dtype, what.op, what.scaling.pre, partial, input,
                                       out,        count};
    return is_float8(what.dtype) ? kernels::accumulate_float8(call)
                                 : kernels::accumulate_half(call);
  }

  void cast(DType from, const void* in, DType to, void* out,
            std::size_t count) const noexcept override {
    constexpr DType kFloat = DType::kFloat32;
    constexpr DType kDouble = DType::kFloat64;
    const auto* floats = static_cast<const float*>(in);
    const auto* doubles = static_cast<const double*>(in);
    auto* to_floats = static_cast<float*>(out);
    auto* to_doubles = static_cast<double*>(out);
    if (from == kFloat && is_half(to)) return kernels::narrow_half(floats, to, out, count);
    if (from == kFloat && to == kDouble) return kernels::widen_float(floats, to_doubles, count);
    if (from == kDouble && is_half(to)) return narrow_from_double(doubles, to, out, count);
    if (from == kDouble && to == kFloat) return kernels::narrow_double(doubles, to_floats, count);
    if (is_half(from) && to == kFloat) return kernels::widen_half(from, in, to_floats, count);
    if (is_half(from) && to == kDouble) return widen_to_double(from, in, to_doubles, count);
    kernels::cast_scalar(from, in, to, out, count);
  }

  std::size_t first_nonfinite(DType dtype, const void* data, std::size_t count,
                              bool only_nan) const noexcept override {
    return kernels::first_nonfinite(dtype, data, count, only_nan);
  }
};

}  // namespace

std::shared_ptr<const ReduceKernels> create_kernels() { return std::make_shared<SimdKernels>(); }

std::string kernels_target() { return kernels::target_name(); }

}  // namespace ronde
