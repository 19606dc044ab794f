#include "ops/allreduce/tree.h"

#include "ops/broadcast/binomial.h"
#include "ops/reduce/binomial.h"

namespace ronde {

Status tree_allreduce(Transport& transport, const FlatWork& work, Scratch& scratch) {
  FlatWork step = work;
  step.root = 0;
  {
    const Phase up(work.phases, "reduce");
    RONDE_RETURN_IF_ERROR(binomial_reduce(transport, step, scratch));
  }
  step.in = step.out;
  const Phase down(work.phases, "broadcast");
  return binomial_broadcast(transport, step, scratch);
}

}  // namespace ronde
