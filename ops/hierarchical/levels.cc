#include "ops/hierarchical/levels.h"

#include <algorithm>
#include <new>

namespace ronde {

std::vector<SlicePiece> pieces_in(std::span<const Segment> segments, const Chunk& slice,
                                  std::size_t element) {
  std::vector<SlicePiece> pieces;
  std::size_t at = 0;
  for (std::size_t index = 0; index < segments.size(); ++index) {
    const Segment& segment = segments[index];
    const std::size_t count = segment.bytes / element;
    const std::size_t begin = std::max(at, slice.begin);
    const std::size_t end = std::min(at + count, slice.begin + slice.count);
    if (begin < end) {
      const std::size_t skip = (begin - at) * element;
      pieces.push_back({segment.in == nullptr ? nullptr : segment.in + skip,
                        segment.out == nullptr ? nullptr : segment.out + skip, begin - slice.begin,
                        end - begin, index, begin - at});
    }
    at += count;
  }
  return pieces;
}

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

Status run_inside(Communicator& inner, Work work, const AbortToken& abort) {
  work.bytes = total_bytes(work);
  return inner.run(work, kNoStream, abort);
}

Status run_between(const Levels& levels, Collective kind, Transport& leaders,
                   const FlatWork& work) {
  RONDE_ASSIGN_OR_RETURN(
      const Algorithm* algorithm,
      select_algorithm(kind, work.bytes, leaders.size(),
                       exact_algorithm(work.reduction, leaders.size()), levels.tuned));
  try {
    return algorithm->run(leaders, work, levels.wire_scratch);
  } catch (const std::bad_alloc&) {
    return {Code::kAborted, "out of memory between hosts"};
  }
}

}  // namespace ronde
