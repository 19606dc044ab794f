// fp16 and bf16: each element rounded to 16 bits, to nearest even.
//
// Format: 2 bytes for each element, IEEE 754 binary16 (fp16) or the upper half of binary32 (bf16).
// No header, no padding. fp16: finite values beyond 65504 become 65504 with their sign. Infinity
// and NaN stay.
#pragma once

#include "ops/compression/registry.h"

namespace ronde {

extern const CodecRow kFp16Codec;
extern const CodecRow kBf16Codec;

}  // namespace ronde
