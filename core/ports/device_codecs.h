// Compression in device memory: the frames of ops/compression's codecs, bit for bit, and top-k. One
// launch takes many runs of values. All work is queued on a stream, and no call waits for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/dtype.h"
#include "core/base/status.h"
#include "core/ports/device_ops.h"

namespace ronde {

/// Formats that round each value by itself or within its block.
enum class FrameFormat : std::uint8_t { kFp16, kBf16, kInt8, kInt4, kOnebit };

/// How values become a frame.
struct FrameCode {
  FrameFormat format = FrameFormat::kFp16;
  bool stochastic = false;  ///< int8 and int4: rounding; else to nearest even.
  std::size_t block = 0;    ///< Elements that share a scale or means, a multiple of 64.
};

/// One run of values to encode: factor * values + residual + the values of the added frames, added
/// in that order in fp32.
struct EncodeRun {
  const void* values = nullptr;      ///< Null counts as zeros.
  const float* residual = nullptr;   ///< Null counts as zeros.
  float* lost = nullptr;             ///< Gets what the frame does not deliver; may be null.
  const std::byte* added = nullptr;  ///< The first of EncodeWork::added_frames frames of the run.
  std::byte* frame = nullptr;
  std::size_t count = 0;     ///< In elements.
  std::uint64_t offset = 0;  ///< Of the first value in its tensor.
  std::uint32_t key = 0;     ///< Of stochastic rounding: compression::fold_key() of the codec's.
};

/// Runs that are encoded alike.
struct EncodeWork {
  FrameCode code;
  DType from = DType::kFloat32;  ///< Of the values; a floating type.
  double factor = 1.0;
  std::size_t added_frames = 0;     ///< Of each run; 0: `added` is not read.
  std::size_t added_stride = 0;     ///< From one of them to the next, in bytes.
  std::span<const EncodeRun> runs;  ///< Read during the call only.
};

/// One frame to decode.
struct DecodeRun {
  const std::byte* frame = nullptr;
  void* out = nullptr;            ///< Null is not written.
  std::uint32_t* flag = nullptr;  ///< Becomes 1 where an element of `out` is not finite; or null.
  std::size_t count = 0;          ///< In elements.
};

/// Frames that are decoded alike.
struct DecodeWork {
  FrameCode code;
  DType to = DType::kFloat32;  ///< Of `out`; a floating type.
  std::span<const DecodeRun> runs;
};

/// One vector of which the largest elements are chosen: those that select_top() of
/// ops/compression/sparse/select.h chooses. A run without elements is passed over.
struct SelectRun {
  const void* values = nullptr;
  const float* residual = nullptr;   ///< Null counts as zeros.
  float* left = nullptr;             ///< Gets what is not chosen, and zeros where it was.
  std::uint32_t* indices = nullptr;  ///< Of the chosen elements, ascending; room for `most`.
  float* chosen = nullptr;           ///< Their values; room for `most`.
  std::uint32_t* found = nullptr;    ///< Becomes how many were chosen: fewer where few are not 0.
  std::byte* scratch = nullptr;      ///< select_scratch() of `count`, aligned as allocate() does.
  double factor = 1.0;
  std::size_t count = 0;  ///< In elements; below 2^32.
  std::size_t most = 0;   ///< To be chosen; up to `count`.
};

/// Vectors that are chosen from alike, of factor * values + residual in fp32.
struct SelectWork {
  DType from = DType::kFloat32;     ///< Of the values; a floating type.
  std::span<const SelectRun> runs;  ///< Read during the call only.
};

/// Some elements to scatter into a vector.
struct ScatterRun {
  const std::uint32_t* indices = nullptr;  ///< Each is there once.
  const float* values = nullptr;
  void* out = nullptr;
  std::uint32_t* flag = nullptr;  ///< Becomes 1 where an element of `out` is not finite; or null.
  std::size_t count = 0;          ///< Of indices.
};

/// out[indices[i]] = values[i], rounded to the type of `out`.
struct ScatterWork {
  DType to = DType::kFloat32;  ///< Of `out`; a floating type.
  bool adds = false;           ///< To what is there, in fp32.
  std::span<const ScatterRun> runs;
};

/// A copy that is made unless `flag` says that its tensor is not finite.
struct CommitRun {
  const float* from = nullptr;
  float* to = nullptr;
  const std::uint32_t* flag = nullptr;
  std::size_t count = 0;  ///< In elements.
};

/// The kernels of compression of one device. Threads: any.
/// Errors of all members: kUnavailable naming the call that failed, and the device; kUnsupported
/// for a type that is not floating.
class DeviceCodecs {
 public:
  virtual ~DeviceCodecs() = default;
  virtual Status encode(const EncodeWork& work, DeviceStream stream) = 0;
  virtual Status decode(const DecodeWork& work, DeviceStream stream) = 0;
  virtual Status commit(std::span<const CommitRun> runs, DeviceStream stream) = 0;
  /// Bytes that select() works with for a run of `count` elements.
  [[nodiscard]] virtual std::size_t select_scratch(std::size_t count) const noexcept = 0;
  virtual Status select(const SelectWork& work, DeviceStream stream) = 0;
  virtual Status scatter(const ScatterWork& work, DeviceStream stream) = 0;
};

}  // namespace ronde
