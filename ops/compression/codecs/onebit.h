// onebit: the sign of each element, and the value of each sign in each block.
//
// Format of a block of n elements, 8 + (n + 7) / 8 bytes:
//   0     fp32  the mean of the elements that are not below zero; 0 without any
//   4     fp32  the mean of those below zero; 0 without any
//   8     bits, element i in bit i % 8 of byte i / 8: 1 is not below zero; unused ones are 0
// A block with NaN or infinity has two NaN and decodes to NaN.
// Source: Seide et al., "1-Bit Stochastic Gradient Descent", Interspeech 2014.
#pragma once

#include "ops/compression/registry.h"

namespace ronde {

extern const CodecRow kOnebitCodec;

}  // namespace ronde
