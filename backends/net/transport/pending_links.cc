#include "backends/net/transport/pending_links.h"

namespace ronde::net {
namespace {

/// Ok while a connection that carries nothing is open.
Status look_for_end(Stream& stream) {
  std::byte byte{};
  const iovec piece{&byte, 1};
  return stream.receive({&piece, 1}).status();
}

}  // namespace

/// One that ends before its dialer begins was given up.
std::optional<Link> PendingLinks::take_begun() {
  for (auto it = candidates_.begin(); it != candidates_.end();) {
    const auto word = it->word.read(it->link.stream);
    if (word.ok() && !word->has_value()) {
      ++it;
      continue;
    }
    if (word.ok() && **word == kBegin) {
      Link begun = std::move(it->link);
      candidates_.clear();
      stop_watching();
      departures_ = 0;
      return begun;
    }
    it = candidates_.erase(it);
  }
  return std::nullopt;
}

void PendingLinks::stop_watching_ended() {
  if (watches() && !look_for_end(watched_.stream).ok()) stop_watching();
}

/// A connection that the peer made before it left may be in its handshake here. It is found before
/// a second watched connection, made later, ends.
Status PendingLinks::look_for_departure() {
  if (!watches()) return {};
  const Status end = look_for_end(watched_.stream);
  if (end.ok() || departures_++ > 0) return end;
  stop_watching();
  return {};
}

}  // namespace ronde::net
