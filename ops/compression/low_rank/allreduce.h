// Allreduce of matrices as products of two thin ones: PowerSGD.
#pragma once

#include "ops/compression/compressed_allreduce.h"

namespace ronde {

/// A piece of a tensor of shape (d0, d1, ...) is a matrix of its whole rows of d1 * ... elements.
/// Matrices whose factors would have more than half their elements, what stands before the first
/// and after the last whole row, and tensors of one dimension travel as they are, in fp32.
/// Two sums over ranks, in the order of ranks: of P = M Q, and of Q' = M^T P with P made
/// orthonormal. The result is P Q'^T on all ranks; Q' is what the next step begins with, and is
/// kept with the residuals. Where ranks begin with different ones (one had joined, or another
/// checkpoint), the first sum tells them so, and all begin anew from the seed.
/// What is left over is M - P (M^T P)^T of the rank's own M.
/// Format: fp32[9] votes, then P column by column and the rest of each piece, fp32; then Q' column
/// by column, fp32; both as ops/allreduce/direct.h carries them.
/// Source: Vogels et al., "PowerSGD", NeurIPS 2019.
Status low_rank_allreduce(Transport& transport, const CompressedAllreduce& work, Scratch& scratch);

}  // namespace ronde
