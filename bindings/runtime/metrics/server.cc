#include "bindings/runtime/metrics/server.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "bindings/runtime/diagnosis/service_thread.h"
#include "bindings/runtime/metrics/http_request.h"
#include "bindings/runtime/metrics/metrics.h"
#include "core/base/os/endpoint.h"
#include "core/base/thread_name.h"

namespace ronde::metrics {
namespace {

constexpr std::size_t kMostClients = 16;
constexpr int kBacklog = 32;
constexpr int kNiceness = 10;
constexpr std::chrono::seconds kPatience{5};
/// After this many at once, no client is accepted for a moment: a flood must not take the job's
/// cores.
constexpr int kCrowd = 16;
constexpr std::chrono::milliseconds kShut{10};
/// Requests within this time get the same page.
constexpr std::chrono::milliseconds kSamePage{20};

Result<Endpoint> parse_address(const std::string& text, int port) {
  const auto address = numeric_host(text);
  if (address.ok()) return address->with_port(static_cast<std::uint16_t>(port));
  return Status(Code::kInvalidArgument,
                fmt::format("RONDE_METRICS_ADDRESS=\"{}\" is not valid; allowed: an IPv4 or IPv6 "
                            "address as a number, such as 127.0.0.1 or ::1",
                            text));
}

Result<FileDescriptor> listen_at(const Endpoint& address, const ServerOptions& options) {
  const int on = 1;
  FileDescriptor fd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.valid()) {
    (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (address.family() == AF_INET6) {
      (void)::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    }
  }
  if (!fd.valid() || ::bind(fd.get(), address.raw(), address.length) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return errno_status(
        fmt::format("cannot serve metrics at {} port {}", options.address, options.port));
  }
  return fd;
}

int poll_ms(TimePoint until) {
  if (until == kForever) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

}  // namespace

Result<std::unique_ptr<Server>> Server::start(ServerOptions options) {
  if (options.port < 1 || options.port > 65'535) {
    return Status(Code::kInvalidArgument,
                  fmt::format("metrics port {} is not valid; allowed: whole numbers from 1 to "
                              "65535 for RONDE_METRICS_PORT plus the rank on its host",
                              options.port));
  }
  RONDE_ASSIGN_OR_RETURN(const Endpoint address, parse_address(options.address, options.port));
  RONDE_ASSIGN_OR_RETURN(FileDescriptor listener, listen_at(address, options));
  std::unique_ptr<Server> server(new Server(std::move(options), std::move(listener)));
  try {
    server->thread_ = diagnosis::start_without_signals([raw = server.get()] { raw->run(); });
  } catch (const std::system_error& error) {
    return Status(Code::kUnavailable, fmt::format("no thread for metrics: {}", error.what()));
  }
  return server;
}

Server::Server(ServerOptions options, FileDescriptor listener)
    : options_(std::move(options)), listener_(std::move(listener)) {}

Server::~Server() {
  stop_.store(true);
  bell_.wake();
  if (thread_.joinable()) thread_.join();
}

void Server::run() {
  name_this_thread("ronde-metrics");
  // A thread's niceness is its own on Linux.
  (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNiceness);
  while (!stop_.load()) {
    wait();
    turn();
  }
}

void Server::wait() {
  constexpr std::chrono::milliseconds kWithoutBell{50};
  std::vector<pollfd> polled = {{bell_.fd(), POLLIN, 0}};
  TimePoint until = bell_.fd() < 0 ? now() + kWithoutBell : kForever;
  if (open_again_ <= now()) {
    polled.push_back({listener_.get(), POLLIN, 0});
  } else {
    until = std::min(until, open_again_);
  }
  for (const Client& client : clients_) {
    const bool writes = !client.answered && !client.answer.empty();
    const short event = writes ? POLLOUT : POLLIN;
    polled.push_back({client.fd.get(), event, 0});
    until = std::min(until, client.deadline);
  }
  (void)::poll(polled.data(), polled.size(), poll_ms(until));
}

void Server::turn() {
  std::erase_if(clients_, [this](Client& client) { return !serve(client); });
  let_in();
}

void Server::let_in() {
  if (open_again_ > now()) return;
  for (int count = 0; count < kCrowd; ++count) {
    FileDescriptor fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) {
      if (errno != EAGAIN && errno != EINTR) open_again_ = now() + kShut;  // no descriptors left
      return;
    }
    if (clients_.size() == kMostClients) clients_.erase(clients_.begin());
    clients_.push_back({.fd = std::move(fd), .deadline = now() + kPatience});
    if (!serve(clients_.back())) clients_.pop_back();
  }
  open_again_ = now() + kShut;
}

/// False where the client is done with, or has taken too long.
bool Server::serve(Client& client) {
  if (now() >= client.deadline) return false;
  if (client.answer.empty() && !read_request(client)) return false;
  if (client.answer.empty()) return true;
  return client.answered ? drain(client) : write_answer(client);
}

bool Server::read_request(Client& client) {
  std::array<char, 4096> bytes;
  for (;;) {
    const ssize_t got = ::recv(client.fd.get(), bytes.data(), bytes.size(), 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    client.request.append(bytes.data(), static_cast<std::size_t>(got));
    const HttpRequest request = judge_request(client.request);
    if (request.status == HttpStatus::kIncomplete) continue;
    const bool ok = request.status == HttpStatus::kOk;
    client.answer = http_answer(request, kContentType, ok ? page() : std::string());
    client.request = {};
    return true;
  }
}

bool Server::write_answer(Client& client) {
  while (client.written < client.answer.size()) {
    const ssize_t put = ::send(client.fd.get(), client.answer.data() + client.written,
                               client.answer.size() - client.written, MSG_NOSIGNAL);
    if (put < 0) return errno == EAGAIN || errno == EINTR;
    client.written += static_cast<std::size_t>(put);
  }
  // Closing while something of the client is unread would take the answer from it.
  client.answered = true;
  (void)::shutdown(client.fd.get(), SHUT_WR);
  return drain(client);
}

bool Server::drain(Client& client) {
  std::array<char, 4096> bytes;
  const ssize_t got = ::recv(client.fd.get(), bytes.data(), bytes.size(), 0);
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

const std::string& Server::page() {
  if (page_.empty() || now() - page_made_ > kSamePage) {
    page_ = options_.page();
    page_made_ = now();
  }
  return page_;
}

}  // namespace ronde::metrics
