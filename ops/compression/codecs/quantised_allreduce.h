// Allreduce of encoded values. Each rank owns a chunk: it gets the chunk's frames from all others,
// adds in fp32, encodes the sum and sends it to all. Values are rounded twice, whatever the number
// of ranks, and all ranks decode the same bytes.
#pragma once

#include "ops/compression/compressed_allreduce.h"

namespace ronde {

/// partition() says who owns which elements. A rank sends (n-1)/n of the encoded bytes twice, in
/// two rounds of messages; several cuts are under way at a time. The loss of encoding a sum joins
/// the owner's residual. Source: Markov et al., "CGX", 2021 (scatter-reduce-allgather); Tang et
/// al., "1-bit Adam", 2021.
Status quantised_allreduce(Transport& transport, const CompressedAllreduce& work, Scratch& scratch);

}  // namespace ronde
