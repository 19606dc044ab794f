// Test data by element type: every value is small enough to be exact in all types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/dtype.h"

namespace ronde::test {

/// A tensor's bytes.
using Bytes = std::vector<std::byte>;

/// All element types; all operations that combine elements on their own.
std::vector<DType> all_dtypes();
std::vector<ReduceOp> all_ops();

/// Element `index` of `bytes`, exact. Integers wrap when written.
double get(DType dtype, const Bytes& bytes, std::size_t index);
void put(DType dtype, Bytes& bytes, std::size_t index, double value);

/// The element of `rank` at `index` before a reduction with `op`.
double operand(ReduceOp op, DType dtype, int rank, std::size_t index);

/// `count` operands of `rank`.
Bytes operands(ReduceOp op, DType dtype, int rank, std::size_t count);

/// Bytes for operations that only move data: unlike any other rank's.
Bytes pattern(int rank, std::size_t bytes);

/// The exact result of `ranks` ranks, before it is rounded to `dtype`.
double expected(ReduceOp op, DType dtype, int ranks, std::size_t index);

/// Empty where `bytes` holds what `ranks` ranks' operands at begin, begin+1, ... give; else a
/// sentence about the first difference. Averages of floating types may differ by one rounding.
std::string compare(ReduceOp op, DType dtype, int ranks, const Bytes& bytes, std::size_t begin = 0);

/// Empty where equal, else where they first differ.
std::string compare_bytes(const Bytes& got, const Bytes& wanted);

}  // namespace ronde::test
