#include "bindings/cli/launch/rank_sockets.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "bindings/cli/launch/job.h"
#include "core/base/os/endpoint.h"

namespace ronde {
namespace {

constexpr int kBufferBytes = 2 << 20;  // the system may allow less

/// Both ends may hold notes that grow with the number of workers.
void enlarge_buffer(int fd) {
  if (::setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &kBufferBytes, sizeof(kBufferBytes)) == 0) {
    return;
  }
  (void)::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kBufferBytes, sizeof(kBufferBytes));
}

}  // namespace

Result<FileDescriptor> NoteSocket::open() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return errno_status("cannot make a socket for a worker's notes");
  }
  for (const int end : ends) enlarge_buffer(end);
  socket_.reset(ends[0]);
  set_nonblocking(ends[0]);
  return FileDescriptor(ends[1]);
}

Status NoteSocket::send(std::string note) {
  if (!socket_.valid()) return {};
  unsent_.push_back(std::move(note));
  return write();
}

Status NoteSocket::write() {
  while (!unsent_.empty()) {
    const std::string& note = unsent_.front();
    const ssize_t sent = ::send(socket_.get(), note.data(), note.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS)) return {};
    const std::size_t bytes = note.size();
    unsent_.pop_front();
    if (sent < 0 && errno == EMSGSIZE) {
      return {Code::kInvalidArgument,
              fmt::format("a note of {} bytes is longer than net.core.wmem_max allows", bytes)};
    }
    if (sent < 0) close();  // the worker is gone
  }
  return {};
}

std::optional<FileMessage> NoteSocket::next() {
  while (socket_.valid()) {
    const ssize_t size = ::recv(socket_.get(), nullptr, 0, MSG_PEEK | MSG_TRUNC);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return std::nullopt;
    if (size <= 0) break;
    return receive_with_file(socket_.get(), static_cast<std::size_t>(size));
  }
  close();
  return std::nullopt;
}

namespace {

constexpr std::size_t kMostClients = 64;

}  // namespace

Status DescriptorServer::open() {
  name_ = "ronde-descriptors/" + random_hex(16);
  const Endpoint endpoint = abstract_endpoint(name_);
  socket_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket_.valid() && ::bind(socket_.get(), endpoint.raw(), endpoint.length) == 0 &&
      ::listen(socket_.get(), SOMAXCONN) == 0) {
    return {};
  }
  name_.clear();
  return errno_status("cannot make a socket for the descriptors of ranks");
}

void DescriptorServer::watch(PollSet& set, const Find& find) {
  clients_.remove_if([](const FileDescriptor& client) { return !client.valid(); });
  set.add(socket_.get(), POLLIN, [this] { accept(); });
  for (FileDescriptor& client : clients_) {
    set.add(client.get(), POLLIN, [&client, &find] { answer(client, find); });
  }
}

/// A process that connects and does not ask makes room for later ones.
void DescriptorServer::accept() {
  FileDescriptor client(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!client.valid() || !is_same_user(client.get())) return;
  clients_.push_back(std::move(client));
  if (clients_.size() > kMostClients) clients_.front().reset();
}

void DescriptorServer::answer(FileDescriptor& client, const Find& find) {
  const FileDescriptor asking = std::move(client);
  const auto request =
      PassedRequest::parse(receive_with_file(asking.get(), kMostPassedBytes).bytes);
  if (!request) return;
  const Result<int> found = find(*request, peer_process(asking.get()));
  std::string text = found.ok() ? "it is yours" : found.status().message();
  text.resize(std::min(text.size(), kMostPassedBytes));
  (void)send_with_file(asking.get(), text, found.ok() ? *found : -1);
}

}  // namespace ronde
