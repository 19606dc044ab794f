#include "bindings/cli/launch/descriptor_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <utility>

#include "bindings/cli/launch/job.h"
#include "core/base/os/endpoint.h"
#include "core/base/os/file_descriptor.h"

namespace ronde {
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
