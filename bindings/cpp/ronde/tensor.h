// Tensors as the C++ API sees them: views of the caller's memory, and results that own theirs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/dtype.h"
#include "ronde/error.h"

namespace ronde {

/// 16-bit floating point as bits, for buffers that hold such values.
struct Float16 {
  std::uint16_t bits = 0;
};
struct Bfloat16 {
  std::uint16_t bits = 0;
};
/// 8-bit floating point as bits: OCP's E4M3 without infinities, and E5M2.
struct Float8E4m3 {
  std::uint8_t bits = 0;
};
struct Float8E5m2 {
  std::uint8_t bits = 0;
};

/// The dtype of an element type.
template <typename T>
constexpr DType dtype_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, bool>) return DType::kBool;
  if constexpr (std::is_same_v<U, Float16>) return DType::kFloat16;
  if constexpr (std::is_same_v<U, Bfloat16>) return DType::kBfloat16;
  if constexpr (std::is_same_v<U, Float8E4m3>) return DType::kFloat8E4m3;
  if constexpr (std::is_same_v<U, Float8E5m2>) return DType::kFloat8E5m2;
  if constexpr (std::is_same_v<U, float>) return DType::kFloat32;
  if constexpr (std::is_same_v<U, double>) return DType::kFloat64;
  if constexpr (std::is_integral_v<U> && !std::is_same_v<U, bool>) {
    constexpr bool kSigned = std::is_signed_v<U>;
    if constexpr (sizeof(U) == 1) return kSigned ? DType::kInt8 : DType::kUint8;
    if constexpr (sizeof(U) == 2) return kSigned ? DType::kInt16 : DType::kUint16;
    if constexpr (sizeof(U) == 4) return kSigned ? DType::kInt32 : DType::kUint32;
    if constexpr (sizeof(U) == 8) return kSigned ? DType::kInt64 : DType::kUint64;
  }
}

/// A view of memory that the caller owns: contiguous, row-major.
struct Tensor {
  const void* in = nullptr;  ///< Read from here.
  void* out = nullptr;       ///< Results go here; null where the call allocates or gives none.
  DType dtype = DType::kFloat32;
  Shape shape;
  int cuda_device = -1;         ///< Its CUDA device; below 0: host memory.
  void* cuda_stream = nullptr;  ///< cudaStream_t that makes `in`, and that results are used on.
};

/// The same tensor in the memory of CUDA device `device`. Ronde reads it after the work that
/// `stream` (a cudaStream_t) has now. Once a wait for the operation returns, later work of `stream`
/// comes after the results. No wait blocks for the device.
inline Tensor on_cuda(Tensor tensor, int device, void* stream) {
  tensor.cuda_device = device;
  tensor.cuda_stream = stream;
  return tensor;
}

/// A tensor that is changed in place.
template <typename T>
Tensor tensor(T* data, Shape shape) {
  return {.in = data, .out = data, .dtype = dtype_of<T>(), .shape = std::move(shape)};
}
template <typename T>
Tensor tensor(std::vector<T>& values) {
  return tensor(values.data(), {static_cast<std::int64_t>(values.size())});
}
template <typename T>
requires(!std::is_const_v<T>) Tensor tensor(std::span<T> values) {
  return tensor(values.data(), {static_cast<std::int64_t>(values.size())});
}

/// A tensor that is only read.
template <typename T>
Tensor tensor(const T* data, Shape shape) {
  return {.in = data, .dtype = dtype_of<T>(), .shape = std::move(shape)};
}
template <typename T>
Tensor tensor(const std::vector<T>& values) {
  return tensor(values.data(), {static_cast<std::int64_t>(values.size())});
}

/// A tensor that is read from `in` and whose result goes to `out`, of the same shape.
template <typename T>
Tensor tensor(const T* in, T* out, Shape shape) {
  return {.in = in, .out = out, .dtype = dtype_of<T>(), .shape = std::move(shape)};
}

/// A tensor of two spans or vectors. Throws InvalidArgument where they differ in size.
template <typename T>
Tensor tensor(std::span<const T> in, std::span<T> out) {
  if (in.size() != out.size()) {
    throw InvalidArgument("a tensor's input has " + std::to_string(in.size()) +
                          " elements, its output " + std::to_string(out.size()) +
                          "; both need the same number");
  }
  return tensor(in.data(), out.data(), {static_cast<std::int64_t>(in.size())});
}
template <typename T>
Tensor tensor(const std::vector<T>& in, std::vector<T>& out) {
  return tensor(std::span<const T>(in), std::span<T>(out));
}

/// A result that owns its memory, on the device of the tensor that was given. Cheap to copy; copies
/// share the memory.
struct Array {
  std::shared_ptr<std::byte> data;  ///< Null where there are no elements.
  DType dtype = DType::kFloat32;
  Shape shape;

  [[nodiscard]] std::int64_t count() const noexcept { return element_count(shape); }
  /// The elements. Throws InvalidArgument where T is not of this array's dtype.
  template <typename T>
  [[nodiscard]] std::span<T> as() const {
    if (dtype_of<T>() != dtype) {
      throw InvalidArgument("the array is of dtype " + std::string(to_string(dtype)) + ", not of " +
                            std::string(to_string(dtype_of<T>())));
    }
    return {reinterpret_cast<T*>(data.get()), static_cast<std::size_t>(count())};
  }
};

}  // namespace ronde
