// What the dumps of several ranks tell of an operation that one of them waits for.
#pragma once

#include <cstdint>

#include "timeline/dump.h"

namespace ronde {

/// A moment of the rank's steady clock on the wall clock.
std::int64_t wall_ns(const Dump& dump, std::int64_t steady_ns) noexcept;

/// Whether the rank takes part in a process set, as far as its last operations show.
bool takes_part(const Dump& dump, std::int32_t set) noexcept;

/// An operation that a rank had begun when it wrote its dump. Both live elsewhere.
struct Awaited {
  const Dump* dump = nullptr;
  const DumpOperation* operation = nullptr;
};

/// Whether the rank has submitted what another waits for. By its name: it is under way there, too,
/// or has ended since the other began to wait. Of a raw group: it has come as far.
bool has_submitted(const Dump& dump, const Awaited& awaited) noexcept;

/// Whether the operation had not ended, or ended because the job failed.
bool was_under_way(const Dump& dump, const DumpOperation& operation) noexcept;

}  // namespace ronde
