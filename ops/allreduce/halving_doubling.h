// Allreduce by recursive halving and doubling: few steps and few bytes, for medium tensors.
#pragma once

#include "core/ports/transport.h"
#include "ops/flat_work.h"
#include "ops/scratch.h"

namespace ronde {

/// Reduce-scatter by halving, allgather by doubling; n ranks of which p, the largest power of two,
/// take part; the other n-p send their input to rank r-p first and get the result last. S bytes.
/// 2 log2 p steps, and 2 more where n is no power of two. Each of the p ranks sends 2(p-1)/p S
/// bytes; 3(p-1)/p S for 16-bit floating types, whose partials travel as fp32 and are rounded once.
/// Order: (r r+p) first, then by halves; each element is combined at one rank and copied.
/// Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in
/// MPICH", 2005.
Status halving_doubling_allreduce(Transport& transport, const FlatWork& work, Scratch& scratch);

}  // namespace ronde
