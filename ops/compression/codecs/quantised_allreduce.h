// Allreduce of encoded values: every rank owns a part, gets it encoded from all others, adds it up
// in fp32, encodes the sum once more and sends it to all. Two roundings whatever the number of
// ranks, and all ranks decode the same bytes.
#pragma once

#include "ops/compression/compressed_allreduce.h"

namespace ronde {

/// Each piece is cut every 2^18 elements, and each cut divided by blocks among the ranks, so that
/// who owns an element depends on its piece alone. Per rank (n-1)/n of the encoded bytes leave
/// twice; two rounds of messages, several cuts being under way at a time.
/// What the owner's own encoding of the sum loses joins the owner's residual.
/// Source: Markov et al., "CGX", 2021 (scatter-reduce-allgather); Tang et al., "1-bit Adam", 2021.
Status quantised_allreduce(Transport& transport, const CompressedAllreduce& work, Scratch& scratch);

}  // namespace ronde
