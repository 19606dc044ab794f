#include "core/protocol/fewer_batches.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ronde {

std::string fewer_batches_text(std::span<const int> ranks, std::string_view otherwise) {
  const bool one = ranks.size() == 1;
  return fmt::format(
      "rank{} {} probably {} fewer batches than the others (uneven data, or an early stop){}{}. "
      "Give all ranks as many batches: by DistributedSampler, ElasticSampler, drop_last or "
      "steps_per_epoch. Or have each rank call join() after its last batch",
      one ? "" : "s", fmt::join(ranks, ", "), one ? "has" : "have",
      otherwise.empty() ? "" : ", or ", otherwise);
}

std::string waits_for_leaver_text(const Request& request, int rank, bool known, bool in_order) {
  const std::string waits = fmt::format("; {} waits for it", described(request));
  if (!in_order) return waits;
  if (request.kind == Collective::kJoin) {
    return waits + ". All ranks must call join() before they leave";
  }
  return known ? fmt::format("{}: {}", waits, fewer_batches_text({&rank, 1})) : waits;
}

}  // namespace ronde
