#include "bindings/runtime/metrics/server.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "bindings/runtime/diagnosis/service_thread.h"
#include "bindings/runtime/metrics/metrics.h"
#include "core/base/os/endpoint.h"
#include "core/base/thread_name.h"

namespace ronde::metrics {
namespace {

std::string_view reason_of(HttpStatus status) noexcept {
  switch (status) {
    case HttpStatus::kOk:
      return "OK";
    case HttpStatus::kNotFound:
      return "Not Found";
    case HttpStatus::kMethodNotAllowed:
      return "Method Not Allowed";
    case HttpStatus::kTooLarge:
      return "Request Header Fields Too Large";
    case HttpStatus::kVersion:
      return "HTTP Version Not Supported";
    default:
      return "Bad Request";
  }
}

std::string_view without_return(std::string_view line) noexcept {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool is_method(std::string_view text) noexcept {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0;
  });
}

/// "/metrics", "/metrics?x=1" or "http://host/metrics".
bool is_metrics(std::string_view target) noexcept {
  constexpr std::string_view kScheme = "http://";
  if (target.starts_with(kScheme)) {
    target.remove_prefix(kScheme.size());
    target.remove_prefix(std::min(target.find('/'), target.size()));
  }
  return target.substr(0, target.find('?')) == "/metrics";
}

/// Judges "GET /metrics HTTP/1.1".
HttpRequest judge_line(std::string_view line) noexcept {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return {HttpStatus::kBadRequest};
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!is_method(method) || target.empty() || target.find(' ') != std::string_view::npos ||
      !version.starts_with("HTTP/")) {
    return {HttpStatus::kBadRequest};
  }
  const bool head = method == "HEAD";
  if (!version.starts_with("HTTP/1.")) return {HttpStatus::kVersion, head};
  if (!head && method != "GET") return {HttpStatus::kMethodNotAllowed};
  return {is_metrics(target) ? HttpStatus::kOk : HttpStatus::kNotFound, head};
}

/// True if the empty line that ends a head is there.
bool is_whole(std::string_view read) noexcept {
  return read.find("\r\n\r\n") != std::string_view::npos ||
         read.find("\n\n") != std::string_view::npos;
}

constexpr std::size_t kMostClients = 16;
constexpr int kBacklog = 32;
constexpr int kNiceness = 10;
constexpr std::chrono::seconds kTimeout{5};
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

HttpRequest judge_request(std::string_view read) noexcept {
  const std::size_t end = read.find('\n');
  if (end != std::string_view::npos) {
    const HttpRequest request = judge_line(without_return(read.substr(0, end)));
    if (request.status == HttpStatus::kBadRequest || is_whole(read)) return request;
  }
  return {read.size() >= kMostRequestBytes ? HttpStatus::kTooLarge : HttpStatus::kIncomplete};
}

std::string http_answer(const HttpRequest& request, std::string_view content_type,
                        std::string_view page) {
  const bool ok = request.status == HttpStatus::kOk;
  const std::string_view reason = reason_of(request.status);
  const std::string body =
      ok ? std::string(page) : fmt::format("{}; metrics are at /metrics\n", reason);
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}Connection: close\r\n"
      "\r\n{}",
      static_cast<int>(request.status), reason, ok ? content_type : "text/plain; charset=utf-8",
      body.size(), request.status == HttpStatus::kMethodNotAllowed ? "Allow: GET, HEAD\r\n" : "",
      request.head ? std::string() : body);
}

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
  waker_.wake();
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
  constexpr std::chrono::milliseconds kPollInterval{50};
  std::vector<pollfd> polled = {{waker_.fd(), POLLIN, 0}};
  TimePoint until = waker_.fd() < 0 ? now() + kPollInterval : kForever;
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
    clients_.push_back({.fd = std::move(fd), .deadline = now() + kTimeout});
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
  // If the socket is closed while input is unread, the kernel drops the answer.
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
