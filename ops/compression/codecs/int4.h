// int4: one scale for each block, half a byte for each element.
//
// Format of a block of n elements, 4 + (n + 1) / 2 bytes:
//   0     fp32  scale = max |x| / 7
//   4     two elements in a byte: q[2i] + 8 in the low half, q[2i + 1] + 8 in the high half;
//         q is -7 ... 7, x = q * scale; for an odd n the last high half is 8
// Rounding, small scales, NaN and infinity: as in int8.h.
#pragma once

#include "ops/compression/registry.h"

namespace ronde {

extern const CodecRow kInt4Codec;

}  // namespace ronde
