// PowerSGD: allreduce of matrices as products of two thin matrices.
#pragma once

#include "ops/compression/compressed_allreduce.h"

namespace ronde {

/// A piece of a tensor of shape (d0, d1, ...) is a matrix M of its whole rows of d1 * ... elements.
/// Three kinds of elements travel as they are, in fp32: matrices whose factors would have more than
/// half their elements, elements outside whole rows, and tensors of one dimension.
/// Two sums over ranks, in the order of ranks: P = M Q, and, with P made orthonormal, Q' = M^T P.
/// The result is P Q'^T on all ranks. The next step begins with Q', which is kept with the
/// residuals. Ranks may begin with different Q, after a join or from different checkpoints. The
/// first sum shows it, and all begin again from the seed. The residual is M - P (M^T P)^T of the
/// rank's own M. Format of the first sum: fp32[9] votes, then of each piece P column by column and
/// the elements that travel as they are. Of the second: Q' column by column. Both are fp32 and go
/// by ops/allreduce/direct.h. Source: Vogels et al., "PowerSGD", NeurIPS 2019.
Status low_rank_allreduce(Transport& transport, const CompressedAllreduce& work, Scratch& scratch);

}  // namespace ronde
