// fp16 and bf16: each element rounded to 16 bits, to nearest even.
//
// Format: 2 bytes for each element, IEEE 754 binary16 (fp16) or the upper half of binary32 (bf16).
// No header, no padding. fp16: finite values beyond 65504 become 65504 with their sign; infinity
// and NaN stay what they are.
#pragma once

#include <memory>

#include "ops/compression/codec.h"

namespace ronde {

/// For kFp16 and kBf16.
std::unique_ptr<const Codec> make_half_codec(const CompressionSpec& spec);

}  // namespace ronde
