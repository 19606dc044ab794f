#include "bindings/runtime/diagnosis/door.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <utility>

#include "core/base/os/endpoint.h"

namespace ronde::diagnosis {
namespace {

constexpr std::size_t kMostVisitors = 16;
constexpr int kBacklog = 64;
constexpr std::chrono::seconds kPatience{5};
/// After so many at once the door stays shut for a moment: a flood must not cost the job its cores.
constexpr int kCrowd = 16;
constexpr std::chrono::milliseconds kShut{10};
constexpr std::size_t kJobBytes = 40;

std::string cleaned(std::string_view job) {
  std::string text(job.substr(0, kJobBytes));
  for (char& c : text) {
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
    if (!plain) c = '_';
  }
  return text;
}

/// The number at the beginning, with the slash after it; false where there is none.
bool take_number(std::string_view& text, int& into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  const auto used = static_cast<std::size_t>(end - text.data());
  if (error != std::errc() || used >= text.size() || text[used] != '/') return false;
  text.remove_prefix(used + 1);
  return into >= 0;
}

}  // namespace

std::string DoorName::text() const {
  return fmt::format("{}{}/{}/{}/{}/{}", kDoorPrefix, pid, number, rank, size, cleaned(job));
}

std::optional<DoorName> DoorName::parse(std::string_view text) {
  if (text.rfind(kDoorPrefix, 0) != 0) return std::nullopt;
  text.remove_prefix(kDoorPrefix.size());
  DoorName name;
  for (int* field : {&name.pid, &name.number, &name.rank, &name.size}) {
    if (!take_number(text, *field)) return std::nullopt;
  }
  name.job = text;
  return name.job == cleaned(name.job) ? std::optional(name) : std::nullopt;
}

Result<Door> Door::open(const DoorName& name) {
  const Endpoint endpoint = abstract_endpoint(name.text());
  FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid() || ::bind(fd.get(), endpoint.raw(), endpoint.length) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return errno_status("cannot listen for ronde doctor");
  }
  return Door(std::move(fd));
}

void Door::gather(std::vector<pollfd>& into) const {
  if (open_again_ <= now()) into.push_back({listener_.get(), POLLIN, 0});
  for (const Visitor& visitor : visitors_) {
    const short event = visitor.reply ? POLLOUT : POLLIN;
    into.push_back({visitor.fd.get(), event, 0});
  }
}

TimePoint Door::next_turn() const {
  TimePoint next = open_again_ > now() ? open_again_ : kForever;
  for (const Visitor& visitor : visitors_) next = std::min(next, visitor.deadline);
  return next;
}

void Door::let_in(TimePoint time) {
  if (open_again_ > time) return;
  int count = 0;
  while (count < kCrowd) {
    FileDescriptor fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) {
      if (errno != EAGAIN && errno != EINTR) open_again_ = time + kShut;  // no descriptors left
      return;
    }
    ++count;
    if (!is_same_user(fd.get())) continue;
    make_room();
    visitors_.push_back({.fd = std::move(fd), .deadline = time + kPatience, .reply = nullptr});
  }
  open_again_ = time + kShut;
}

/// The oldest that has not said the word goes first.
void Door::make_room() {
  if (visitors_.size() < kMostVisitors) return;
  const auto silent = std::find_if(visitors_.begin(), visitors_.end(),
                                   [](const Visitor& visitor) { return !visitor.reply; });
  visitors_.erase(silent != visitors_.end() ? silent : visitors_.begin());
}

/// Takes in what is there; false where it is not the beginning of the word, or the visitor has
/// gone.
bool Door::hear(Visitor& visitor) {
  const ssize_t got = ::recv(visitor.fd.get(), visitor.word.data() + visitor.heard,
                             visitor.word.size() - visitor.heard, 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  visitor.heard += static_cast<std::size_t>(got);
  return got > 0 &&
         kDoorWord.substr(0, visitor.heard) == std::string_view(visitor.word.data(), visitor.heard);
}

/// Sends what fits; false once all is sent, or the visitor has gone.
bool Door::answer(Visitor& visitor) {
  const std::string& reply = *visitor.reply;
  const ssize_t put = ::send(visitor.fd.get(), reply.data() + visitor.sent,
                             reply.size() - visitor.sent, MSG_NOSIGNAL);
  if (put < 0) return errno == EAGAIN || errno == EINTR;
  visitor.sent += static_cast<std::size_t>(put);
  return visitor.sent < reply.size();
}

void Door::turn(TimePoint time, const std::function<std::shared_ptr<const std::string>()>& make) {
  let_in(time);
  for (auto visitor = visitors_.begin(); visitor != visitors_.end();) {
    bool stays = visitor->deadline > time;
    if (stays && !visitor->reply) stays = hear(*visitor);
    if (stays && visitor->heard == kDoorWord.size() && !visitor->reply) visitor->reply = make();
    if (stays && visitor->reply) stays = answer(*visitor);
    visitor = stays ? std::next(visitor) : visitors_.erase(visitor);
  }
}

}  // namespace ronde::diagnosis
