#include "backends/net/transport/greetings.h"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>

#include "backends/net/link/outage.h"

namespace ronde::net {
namespace {

/// A new connection that carries no greeting by then is given up.
constexpr std::chrono::seconds kGreetingLimit{3};
/// A request that has brought no connection by then is made again.
constexpr std::chrono::seconds kAskingLimit{2};
/// A request that lasts so long was not made before the connection that is there.
constexpr std::chrono::milliseconds kRequestLasts{200};
constexpr int kRefusals = 3;
constexpr std::chrono::milliseconds kRefusalTime{300};

}  // namespace

void Greetings::begin(Link link, ChunkHeader greeting) {
  candidates_.push_back({{ChunkStream(std::move(link.stream)), std::move(link.counted)}, now()});
  if (!dials_) return;
  greeting.message = ++last_dialed_;
  candidates_.back().connection.chunks.begin(greeting, {});
}

Result<std::optional<GreetedConnection>> Greetings::next(bool& moved) {
  for (auto it = candidates_.begin(); it != candidates_.end();) {
    const auto greeted = has_greeting(it->connection.chunks, moved);
    if (greeted.ok() && !*greeted) {
      ++it;
      continue;
    }
    if (!greeted.ok() && !is_outage(greeted.status().code())) return greeted.status();
    GreetedConnection connection = std::move(it->connection);
    it = candidates_.erase(it);
    if (greeted.ok()) return std::optional(std::move(connection));
    if (dials_) note_refusal(now());
  }
  return std::optional<GreetedConnection>();
}

/// True once the peer's greeting is there.
Result<bool> Greetings::has_greeting(ChunkStream& chunks, bool& moved) {
  if (chunks.writing()) RONDE_RETURN_IF_ERROR(chunks.write(moved).status());
  RONDE_ASSIGN_OR_RETURN(const auto step, chunks.read(moved));
  if (step == ChunkStream::Step::kNothing) return false;
  if (chunks.incoming().kind == ChunkKind::kGreeting) return true;
  return Status(Code::kInternal, "sent no greeting");
}

std::optional<TimePoint> Greetings::look(TimePoint time, bool used) {
  std::erase_if(candidates_, [&](Candidate& candidate) {
    return candidate.silence.look(candidate.connection.chunks.fd(), time) >= kSilentAfter ||
           time > candidate.since + kGreetingLimit;
  });
  return asking_ ? look_at_asking(time, used) : std::nullopt;
}

/// The peer closes it only where it has left; a network may cut it.
std::optional<TimePoint> Greetings::look_at_asking(TimePoint time, bool used) {
  std::byte byte{};
  const iovec piece{&byte, 1};
  const bool ended = !asking_->link.stream.receive({&piece, 1}).ok();
  if (ended && !dials_) note_refusal(time);
  const TimePoint since = asking_->since;
  if (ended || time > since + kAskingLimit) {
    asking_.reset();
    return std::nullopt;
  }
  const bool in_vain = dials_ && used && time >= since + kRequestLasts;
  return in_vain ? std::optional(since) : std::nullopt;
}

bool Greetings::is_refused() const noexcept {
  return refusals_ >= kRefusals && now() > refused_since_ + kRefusalTime;
}

bool Greetings::has_unread() const noexcept {
  return std::ranges::any_of(candidates_, [](const Candidate& candidate) {
    return candidate.connection.chunks.has_unread();
  });
}

}  // namespace ronde::net
