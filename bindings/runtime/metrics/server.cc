#include "bindings/runtime/metrics/server.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <system_error>
#include <utility>

#include "bindings/runtime/diagnosis/service_thread.h"
#include "bindings/runtime/metrics/metrics.h"
#include "core/base/os/endpoint.h"
#include "core/base/thread_name.h"

namespace ronde::metrics {
namespace {

using Reason = std::pair<HttpStatus, std::string_view>;
constexpr std::array<Reason, 6> kReasons = {{
    {HttpStatus::kOk, "OK"},
    {HttpStatus::kBadRequest, "Bad Request"},
    {HttpStatus::kNotFound, "Not Found"},
    {HttpStatus::kMethodNotAllowed, "Method Not Allowed"},
    {HttpStatus::kTooLarge, "Request Header Fields Too Large"},
    {HttpStatus::kVersion, "HTTP Version Not Supported"},
}};

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

constexpr int kNiceness = 10;
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
  const std::string_view reason =
      std::ranges::find(kReasons, request.status, &Reason::first)->second;
  const std::string body =
      ok ? std::string(page) : fmt::format("{}; metrics are at /metrics\n", reason);
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}Connection: close\r\n"
      "\r\n{}",
      static_cast<int>(request.status), reason, ok ? content_type : "text/plain; charset=utf-8",
      body.size(), request.status == HttpStatus::kMethodNotAllowed ? "Allow: GET, HEAD\r\n" : "",
      request.head ? std::string() : body);
}

Result<std::unique_ptr<Server>> Server::start(const std::string& address, int port, MakePage make) {
  if (port < 1 || port > 65'535) {
    return Status(Code::kInvalidArgument,
                  fmt::format("metrics port {} is not valid; allowed: whole numbers from 1 to "
                              "65535 for RONDE_METRICS_PORT plus the rank on its host",
                              port));
  }
  RONDE_ASSIGN_OR_RETURN(const Endpoint endpoint, parse_address(address, port));
  RONDE_ASSIGN_OR_RETURN(
      diagnosis::ReplySocket socket,
      diagnosis::ReplySocket::open(
          endpoint, fmt::format("cannot serve metrics at {} port {}", address, port)));
  std::unique_ptr<Server> server(new Server(std::move(socket), std::move(make)));
  try {
    server->thread_ = diagnosis::start_without_signals([raw = server.get()] { raw->run(); });
  } catch (const std::system_error& error) {
    return Status(Code::kUnavailable, fmt::format("no thread for metrics: {}", error.what()));
  }
  return server;
}

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
    diagnosis::wait_for(waker_, &socket_, kForever);
    socket_.turn(now(), [this](std::string_view sent) { return answer(sent); });
  }
}

diagnosis::ReplySocket::Reply Server::answer(std::string_view sent) {
  const HttpRequest request = judge_request(sent);
  if (request.status == HttpStatus::kIncomplete) return nullptr;
  const bool ok = request.status == HttpStatus::kOk;
  return std::make_shared<const std::string>(http_answer(request, kContentType, ok ? page() : ""));
}

const std::string& Server::page() {
  if (page_.empty() || now() - page_made_ > kSamePage) {
    page_ = make_();
    page_made_ = now();
  }
  return page_;
}

}  // namespace ronde::metrics
