// The agreements between the ranks of an elastic job: at commits, at the start and at the end.
//
// One small allreduce of maxima serves commits and ends, so that ranks with unequal numbers of
// commits do not wait for each other forever. Names and shapes are those of Python's workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "bindings/cpp/internal.h"
#include "core/elastic/agreement.h"
#include "ronde/ronde.h"

namespace ronde::elastic {

/// Joins the facts of all ranks. `change`: the one that this rank has learned of. `returned`: it
/// needs no others any more. A worker that is asked to leave adds its leave. Collective. Throws
/// errors of operations.
CommitFacts agree(Job& job, std::optional<Change> change, bool returned);

/// The newest step of which any rank has a copy. Collective.
std::int64_t newest_step(Job& job, std::int64_t step);

/// The bytes of all ranks, by rank. Collective.
Array gather_bytes(Job& job, const char* name, std::vector<std::byte> mine);

/// The messages of all ranks, by rank. Collective.
template <typename Facts>
std::vector<Facts> gather(Job& job, const char* name, const Facts& mine) {
  const Array all = gather_bytes(job, name, encode_wire(mine));
  return value_or_throw(decode_ranks<Facts>(std::as_bytes(all.as<std::uint8_t>()), job.size()));
}

/// Returns once all ranks have called it. Collective.
void meet(Job& job);

}  // namespace ronde::elastic
