#include "ops/levels.h"

#include <new>

namespace ronde {

Status with_wire(WireThread& wire, const AbortToken& abort,
                 const std::function<Status(const AbortToken& wire_abort)>& body) {
  AbortToken wire_abort;
  const int id = abort.listen([&] { wire_abort.abort({Code::kAborted, "the group is broken"}); });
  const Status status = body(wire_abort);
  if (!status.ok()) wire_abort.abort(status);
  wire.drain();
  abort.unlisten(id);
  return !status.ok() && abort.aborted() ? abort.status() : status;
}

Status run_inside(WorkRunner& inner, const Work& work, const AbortToken& abort) {
  WorkDesc desc;
  desc.kind = work.kind;
  desc.dtype = work.reduction.dtype;
  desc.op = work.reduction.op;
  desc.bytes = total_bytes(work);
  RONDE_ASSIGN_OR_RETURN(const Route route, inner.route(desc));
  return inner.run(work, route, abort);
}

Status run_between(const Levels& levels, Collective kind, Transport& leaders,
                   const FlatWork& work) {
  RONDE_ASSIGN_OR_RETURN(const Algorithm* algorithm,
                         select_algorithm(kind, work.bytes, leaders.size(), "", levels.tuned));
  try {
    return algorithm->run(leaders, work, levels.wire_scratch);
  } catch (const std::bad_alloc&) {
    return {Code::kAborted, "out of memory between hosts"};
  }
}

}  // namespace ronde
