// What turns runs of fp32 values into fewer bytes and back: pure functions on buffers. A format is
// a sequence of blocks, all but the last of block() elements; each codec's header gives its bytes.
// Numbers are little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "core/base/status.h"
#include "ops/compression/spec.h"

namespace ronde {

/// What encode() is given.
struct EncodeCall {
  std::span<const float> values;
  std::byte* frame = nullptr;  ///< encoded_bytes(values.size()) bytes.
  float* lost = nullptr;       ///< Gets value - decoded value where not null; may be `values`.
  std::uint64_t key = 0;       ///< Stochastic rounding: equal keys and offsets round alike.
  std::uint64_t offset = 0;    ///< Of the first value in its tensor, in elements.
};

/// One format. NaN and infinity are never encoded as numbers: what they touch (the element, or its
/// block) decodes to NaN or infinity. Threads: any; stateless. The same bits on every CPU.
class Codec {
 public:
  virtual ~Codec() = default;
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// Elements of a block: runs that are encoded apart and begin at its multiples may be joined.
  [[nodiscard]] virtual std::size_t block() const noexcept = 0;
  /// Bytes of `count` encoded elements; 0 for 0.
  [[nodiscard]] virtual std::size_t encoded_bytes(std::size_t count) const noexcept = 0;
  virtual void encode(const EncodeCall& call) const noexcept = 0;

  /// Writes the values of a frame to `out`. Any bytes of the right number decode to some values.
  /// Errors: kInvalidArgument where the frame is not encoded_bytes(out.size()) long.
  Status decode(std::span<const std::byte> frame, std::span<float> out) const;
  /// As decode, added to what is in `out`.
  Status decode_add(std::span<const std::byte> frame, std::span<float> out) const;

 protected:
  /// `add`: to what is there. The frame has the right length.
  virtual void decode_frame(const std::byte* frame, std::span<float> out,
                            bool add) const noexcept = 0;

 private:
  [[nodiscard]] Status check(std::span<const std::byte> frame, std::size_t count) const;
};

/// The codec of a spec; null for those whose values are chosen rather than rounded.
std::unique_ptr<const Codec> make_codec(const CompressionSpec& spec);

}  // namespace ronde
