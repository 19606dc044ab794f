// Codecs turn fp32 values into frames of fewer bytes and back: pure functions on buffers. A frame
// is a sequence of blocks of block() elements; the last may have fewer. Each codec's header gives
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

/// The arguments of encode().
struct EncodeCall {
  std::span<const float> values;
  std::byte* frame = nullptr;  ///< encoded_bytes(values.size()) bytes.
  float* lost = nullptr;       ///< Gets value - decoded value; may be `values`, or null.
  std::uint64_t key = 0;       ///< Stochastic rounding: equal keys and offsets round alike.
  std::uint64_t offset = 0;    ///< The first value's place in its tensor, in elements.
};

/// One format. An element that is NaN or infinite, or its block, decodes to NaN or infinity.
/// The same bits on every CPU. Threads: any; stateless.
class Codec {
 public:
  virtual ~Codec() = default;
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// Elements of a block. Frames of runs that begin at its multiples may be joined.
  [[nodiscard]] virtual std::size_t block() const noexcept = 0;
  /// Bytes of `count` encoded elements; 0 for 0.
  [[nodiscard]] virtual std::size_t encoded_bytes(std::size_t count) const noexcept = 0;
  virtual void encode(const EncodeCall& call) const noexcept = 0;

  /// Writes the values of a frame to `out`. Any bytes decode to some values.
  /// Errors: kInvalidArgument if the frame is not encoded_bytes(out.size()) long.
  Status decode(std::span<const std::byte> frame, std::span<float> out) const;
  /// As decode(), but adds to `out`.
  Status decode_add(std::span<const std::byte> frame, std::span<float> out) const;

 protected:
  /// Writes to `out`, or adds to it. The frame has the right length.
  virtual void decode_frame(const std::byte* frame, std::span<float> out,
                            bool add) const noexcept = 0;

 private:
  [[nodiscard]] Status check(std::span<const std::byte> frame, std::size_t count) const;
};

/// The codec of a spec. Null for payloads other than frames.
std::unique_ptr<const Codec> make_codec(const CompressionSpec& spec);

}  // namespace ronde
