#include "timeline/dump_facts.h"

#include <algorithm>

namespace ronde {

std::int64_t wall_ns(const Dump& dump, std::int64_t steady_ns) noexcept {
  return dump.epoch_ns - (dump.steady_ns - steady_ns);
}

bool takes_part(const Dump& dump, std::int32_t set) noexcept {
  return set == 0 || std::any_of(dump.operations.begin(), dump.operations.end(),
                                 [set](const DumpOperation& own) { return own.set == set; });
}

bool has_submitted(const Dump& dump, const Awaited& awaited) noexcept {
  const DumpOperation& wanted = *awaited.operation;
  const std::int64_t since = wall_ns(*awaited.dump, wanted.submitted_ns);
  return std::any_of(dump.operations.begin(), dump.operations.end(), [&](const auto& own) {
    if (own.set != wanted.set) return false;
    if (wanted.call != 0) return own.call >= wanted.call;
    return own.name == wanted.name &&
           (was_under_way(dump, own) || wall_ns(dump, own.done_ns) > since);
  });
}

bool was_under_way(const Dump& dump, const DumpOperation& operation) noexcept {
  return !operation.done() || (!dump.failure.empty() && operation.status != "ok");
}

}  // namespace ronde
