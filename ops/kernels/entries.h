// The entries of this folder, one for each family of element types.
// Each picks, at run time, the code compiled for the best instruction set of this CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/base/dtype.h"

namespace ronde::kernels {

/// One reduction, as ReduceKernels::reduce describes it.
struct ReduceCall {
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  double pre = 1.0;
  double post = 1.0;
  std::span<const void* const> inputs;
  void* out = nullptr;
  std::size_t count = 0;
  bool streaming = false;
  bool rounds_once = false;  ///< As in Reduction.
};

/// One step of a reduction that stays in fp32.
struct AccumulateCall {
  DType dtype = DType::kBfloat16;
  ReduceOp op = ReduceOp::kSum;
  double pre = 1.0;
  const float* partial = nullptr;
  const void* input = nullptr;
  float* out = nullptr;
  std::size_t count = 0;
};

/// Floating types of 16 bits and more.
void reduce_floating(const ReduceCall& call);
/// Both 8-bit floating types.
void reduce_float8(const ReduceCall& call);
/// Integers and bool.
void reduce_integer(const ReduceCall& call);

void accumulate_half(const AccumulateCall& call);
void accumulate_float8(const AccumulateCall& call);

/// float16 or bfloat16 to fp32, and back.
void widen_half(DType from, const void* in, float* out, std::size_t count);
void narrow_half(const float* in, DType to, void* out, std::size_t count);

/// fp32 to fp64, and back: to nearest even, or to odd where it is not exact, as round_to_odd().
void widen_float(const float* in, double* out, std::size_t count);
void narrow_double(const double* in, float* out, std::size_t count);
void narrow_double_to_odd(const double* in, float* out, std::size_t count);

/// Any pair of types, element by element.
void cast_scalar(DType from, const void* in, DType to, void* out, std::size_t count);

/// As ReduceKernels::first_nonfinite().
std::size_t first_nonfinite(DType dtype, const void* data, std::size_t count, bool only_nan);

/// The instruction set that the entries above use now, such as "AVX-512".
std::string target_name();

}  // namespace ronde::kernels
