// ReduceKernels over the entries of this folder: picks the family by element type, and leaves out
// work that changes nothing.
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
    if (from == DType::kFloat32 && is_half(to)) {
      kernels::narrow_half(static_cast<const float*>(in), to, out, count);
    } else if (is_half(from) && to == DType::kFloat32) {
      kernels::widen_half(from, in, static_cast<float*>(out), count);
    } else {
      kernels::cast_scalar(from, in, to, out, count);
    }
  }
};

}  // namespace

std::shared_ptr<const ReduceKernels> create_kernels() { return std::make_shared<SimdKernels>(); }

std::string kernels_target() { return kernels::target_name(); }

}  // namespace ronde
