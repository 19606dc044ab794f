#include "bindings/runtime/metrics/http_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

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

}  // namespace ronde::metrics
