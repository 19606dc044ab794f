// Leaving: the root closes the set by a last batch, so that everyone knows the same operations to
// have been agreed before it, and all others to fail.
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "core/protocol/negotiator_impl.h"

namespace ronde {

void Negotiator::Impl::leave(std::string_view why) {
  constexpr std::size_t kMost = 512;  // a few lines, in a frame that carries more
  note_leaver(options_.rank, why.substr(0, kMost));
}

void Negotiator::Impl::note_leaver(int rank, std::string_view why) {
  if (closed()) return;
  if (is_root()) {
    close_set(rank, why);
  } else if (draft_.leaver < 0) {
    draft_.leaver = rank;
    draft_.farewell = why;
    has_draft_ = true;
  }
}

void Negotiator::Impl::close_set(int leaver, std::string_view why) {
  agree();
  BatchItem item;
  item.leaver = leaver;
  item.message = why;
  append(std::move(item));
  close_batch();
}

void Negotiator::Impl::apply_leave(const BatchItem& closing, Batch& out) {
  closed_ =
      Status(Code::kRankFailure, fmt::format("rank {} has left the job{}{}", closing.leaver,
                                             closing.message.empty() ? "" : ": ", closing.message))
          .about({closing.leaver, "", 0});
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
