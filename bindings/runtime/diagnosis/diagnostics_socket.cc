#include "bindings/runtime/diagnosis/diagnostics_socket.h"

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

constexpr std::size_t kMostClients = 16;
constexpr int kBacklog = 64;
constexpr std::chrono::seconds kTimeout{5};
/// After so many at once no client is accepted for a moment: a flood must not take the job's cores.
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

std::string DiagnosticsAddress::text() const {
  return fmt::format("{}{}/{}/{}/{}/{}", kDiagnosticsPrefix, pid, number, rank, size, cleaned(job));
}

std::optional<DiagnosticsAddress> DiagnosticsAddress::parse(std::string_view text) {
  if (text.rfind(kDiagnosticsPrefix, 0) != 0) return std::nullopt;
  text.remove_prefix(kDiagnosticsPrefix.size());
  DiagnosticsAddress name;
  for (int* field : {&name.pid, &name.number, &name.rank, &name.size}) {
    if (!take_number(text, *field)) return std::nullopt;
  }
  name.job = text;
  return name.job == cleaned(name.job) ? std::optional(name) : std::nullopt;
}

Result<DiagnosticsSocket> DiagnosticsSocket::open(const std::string& name) {
  const Endpoint endpoint = abstract_endpoint(name);
  FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid() || ::bind(fd.get(), endpoint.raw(), endpoint.length) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return errno_status("cannot listen for ronde doctor");
  }
  return DiagnosticsSocket(std::move(fd));
}

void DiagnosticsSocket::gather(std::vector<pollfd>& into) const {
  if (accept_again_ <= now()) into.push_back({listener_.get(), POLLIN, 0});
  for (const Client& client : clients_) {
    const short event = client.reply ? POLLOUT : POLLIN;
    into.push_back({client.fd.get(), event, 0});
  }
}

TimePoint DiagnosticsSocket::next_turn() const {
  TimePoint next = accept_again_ > now() ? accept_again_ : kForever;
  for (const Client& client : clients_) next = std::min(next, client.deadline);
  return next;
}

void DiagnosticsSocket::accept(TimePoint time) {
  if (accept_again_ > time) return;
  int count = 0;
  while (count < kCrowd) {
    FileDescriptor fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) {
      if (errno != EAGAIN && errno != EINTR) accept_again_ = time + kShut;  // no descriptors left
      return;
    }
    ++count;
    if (!is_same_user(fd.get())) continue;
    make_room();
    clients_.push_back({.fd = std::move(fd), .deadline = time + kTimeout, .reply = nullptr});
  }
  accept_again_ = time + kShut;
}

/// Drops the oldest client without a request, else the oldest.
void DiagnosticsSocket::make_room() {
  if (clients_.size() < kMostClients) return;
  const auto silent = std::find_if(clients_.begin(), clients_.end(),
                                   [](const Client& client) { return !client.reply; });
  clients_.erase(silent != clients_.end() ? silent : clients_.begin());
}

/// Receives what is there; false if it begins no request, or the client is gone.
bool DiagnosticsSocket::receive(Client& client) {
  const ssize_t got = ::recv(client.fd.get(), client.request.data() + client.received,
                             client.request.size() - client.received, 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  client.received += static_cast<std::size_t>(got);
  return got > 0 && (kDiagnosticsRequest.starts_with(client.text()) ||
                     kProbeRequest.starts_with(client.text()));
}

/// Sends what fits; false once all is sent, or the client is gone.
bool DiagnosticsSocket::answer(Client& client) {
  const std::string& reply = *client.reply;
  const ssize_t put =
      ::send(client.fd.get(), reply.data() + client.sent, reply.size() - client.sent, MSG_NOSIGNAL);
  if (put < 0) return errno == EAGAIN || errno == EINTR;
  client.sent += static_cast<std::size_t>(put);
  return client.sent < reply.size();
}

void DiagnosticsSocket::turn(TimePoint time, const Answer& make) {
  accept(time);
  for (auto client = clients_.begin(); client != clients_.end();) {
    bool stays = client->deadline > time;
    if (stays && !client->reply) stays = receive(*client);
    if (stays && client->received == kDiagnosticsRequest.size() && !client->reply)
      client->reply = make(client->text());
    if (stays && client->reply) stays = answer(*client);
    client = stays ? std::next(client) : clients_.erase(client);
  }
}

}  // namespace ronde::diagnosis
