// int8: one scale for each block, one byte for each element.
//
// Format of a block of n elements, 4 + n bytes:
//   0     fp32  scale = max |x| / 127
//   4     int8  q[n], -127 ... 127; x = q * scale
// nearest: q = rint(x / scale). stochastic: q = floor(x / scale + u), u uniform in [0, 1).
// A block whose scale would be below 2^-126 has scale 0 and zeros. A block with NaN or infinity has
// the scale NaN and zeros: all of it decodes to NaN.
// Source: Alistarh et al., "QSGD", NeurIPS 2017 (block-wise, scaled by the maximum).
#pragma once

#include "ops/compression/registry.h"

namespace ronde {

extern const CodecRow kInt8Codec;

}  // namespace ronde
