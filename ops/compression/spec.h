// How users name a compression: "int8", "int4:block=128,rounding=stochastic,seed=7", ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/dtype.h"
#include "core/base/status.h"

namespace ronde {

/// The formats there are.
enum class CodecKind : std::uint8_t { kFp16, kBf16, kInt8, kInt4, kOnebit };

/// A compression and its parameters. Equal on all ranks: it is negotiated as text.
struct CompressionSpec {
  CodecKind kind = CodecKind::kFp16;
  std::size_t block = 0;    ///< Elements that share a scale; not of fp16 and bf16.
  bool stochastic = false;  ///< int8 and int4: rounds up or down at random, right on average.
  std::uint64_t seed = 0;   ///< Of stochastic rounding.
  bool error_feedback = true;

  bool operator==(const CompressionSpec&) const = default;
};

/// Largest block, in elements.
inline constexpr std::size_t kMaxBlock = 4096;

/// Reads `name[:key=value,...]`. Names: fp16, bf16, int8, int4, onebit. Keys: ef (on, off), and
/// where they mean something block (a multiple of 64 up to kMaxBlock), rounding (nearest,
/// stochastic), seed. Defaults: fp16, bf16: ef=off; int8: block=512; int4: block=256; onebit:
/// block=1024; the last three ef=on. Errors: kInvalidArgument with the value and what is allowed.
Result<CompressionSpec> parse_compression(std::string_view text);

/// The same text for equal specs; leaves defaults out.
std::string to_string(const CompressionSpec& spec);

/// Ok where it is an allreduce of a floating type, by sum or average: what can be compressed.
/// Errors: kInvalidArgument with the value and what is allowed.
Status check_compressible(Collective kind, DType dtype, ReduceOp op);

}  // namespace ronde
