// Codecs turn fp32 values into frames of fewer bytes and back: pure functions on buffers. A frame
// is a sequence of blocks of block() elements; the last may have fewer. Each codec's source gives
// the bytes. Numbers are little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "core/base/status.h"
#include "ops/compression/spec.h"

namespace ronde {
namespace compression {

/// Thirty-two bits that depend on all bits of a key.
constexpr std::uint32_t fold_key(std::uint64_t key) noexcept {
  key = (key ^ (key >> 33)) * 0xff51afd7ed558ccdULL;
  key = (key ^ (key >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return static_cast<std::uint32_t>(key ^ (key >> 32));
}

}  // namespace compression

/// The arguments of encode().
struct EncodeCall {
  std::span<const float> values;
  std::byte* frame = nullptr;  ///< encoded_bytes(values.size()) bytes.
  float* lost = nullptr;       ///< Gets value - decoded value; may be `values`, or null.
  std::uint64_t key = 0;       ///< Stochastic rounding: equal keys and offsets round alike.
  std::uint64_t offset = 0;    ///< The first value's place in its tensor, in elements.
};

/// The functions of one format, for the best instruction set of this CPU.
struct FrameKernels {
  std::size_t (*encoded_bytes)(std::size_t count, std::size_t block);
  void (*encode)(const EncodeCall& call, const CompressionSpec& spec);
  /// Writes the values of a frame of the right length to `out`, or adds them.
  void (*decode)(const std::byte* frame, std::span<float> out, const CompressionSpec& spec,
                 bool add);
};

/// A spec with its format. An element that is NaN or infinite, or its block, decodes to NaN or
/// infinity. The same bits on every CPU. Threads: any; stateless.
class Codec {
 public:
  Codec(const CompressionSpec& spec, const FrameKernels& kernels)
      : spec_(spec), kernels_(kernels) {}

  [[nodiscard]] std::string_view name() const noexcept { return codec_name(spec_.kind); }
  /// Elements of a block; without one, of a cache line's frame. Frames of runs that begin at its
  /// multiples may be joined.
  [[nodiscard]] std::size_t block() const noexcept { return spec_.block == 0 ? 64 : spec_.block; }
  /// Bytes of `count` encoded elements; 0 for 0.
  [[nodiscard]] std::size_t encoded_bytes(std::size_t count) const noexcept {
    return kernels_.encoded_bytes(count, block());
  }
  void encode(const EncodeCall& call) const noexcept { kernels_.encode(call, spec_); }

  /// Writes the values of a frame to `out`. Any bytes decode to some values.
  /// Errors: kInvalidArgument if the frame is not encoded_bytes(out.size()) long.
  Status decode(std::span<const std::byte> frame, std::span<float> out) const;
  /// As decode(), but adds to `out`.
  Status decode_add(std::span<const std::byte> frame, std::span<float> out) const;

 private:
  [[nodiscard]] Status check(std::span<const std::byte> frame, std::size_t count) const;

  const CompressionSpec spec_;
  const FrameKernels& kernels_;
};

/// The codec of a spec. Null for payloads other than frames.
std::unique_ptr<const Codec> make_codec(const CompressionSpec& spec);

}  // namespace ronde
