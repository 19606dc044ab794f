// Leaving: the root closes the set by a last batch, so that everyone knows the same operations to
// have been agreed before it, and all others to fail.
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "core/protocol/negotiator_impl.h"

namespace ronde {

void Negotiator::Impl::leave() { note_leaver(options_.rank); }

void Negotiator::Impl::note_leaver(int rank) {
  if (closed()) return;
  if (is_root()) {
    close_set(rank);
  } else if (draft_.leaver < 0) {
    draft_.leaver = rank;
    has_draft_ = true;
  }
}

void Negotiator::Impl::close_set(int leaver) {
  agree();
  BatchItem item;
  item.leaver = leaver;
  append(std::move(item));
  close_batch();
}

void Negotiator::Impl::apply_leave(int leaver, Batch& out) {
  closed_ = Status(Code::kRankFailure, fmt::format("rank {} has left the job", leaver))
                .about({leaver, "", 0});
  std::vector<OpKey> keys;
  own_.for_each([&](const OpKey& key, OwnOperation&) { keys.push_back(key); });
  for (const OpKey& key : keys) {
    Agreed failed;
    if (!take_own(key, failed)) continue;
    failed.status = closed_;
    out.items.push_back(std::move(failed));
  }
  if (join_ticket_ == 0) return;
  Agreed join;
  join.ticket = std::exchange(join_ticket_, 0);
  join.request.kind = Collective::kJoin;
  join.status = closed_;
  out.items.push_back(std::move(join));
}

}  // namespace ronde
