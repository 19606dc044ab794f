// The subset of HTTP/1.1 that one page needs. It is written here: a hundred lines replace a library
// in every process of a job.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ronde::metrics {

/// A longer head of a request is refused.
inline constexpr std::size_t kMostRequestBytes = 8192;

/// The answer's status, by HTTP's numbers.
enum class HttpStatus : int {
  kIncomplete = 0,  ///< More has to be read first.
  kOk = 200,
  kBadRequest = 400,
  kNotFound = 404,
  kMethodNotAllowed = 405,
  kTooLarge = 431,
  kVersion = 505,
};

/// A client's request, as far as it is judged.
struct HttpRequest {
  HttpStatus status = HttpStatus::kIncomplete;
  bool head = false;  ///< The answer goes without its body.
};

/// Judges what has been read of a request so far. Only GET and HEAD of /metrics are served.
HttpRequest judge_request(std::string_view read) noexcept;

/// The whole answer; `page` is its body where the status is kOk.
std::string http_answer(const HttpRequest& request, std::string_view content_type,
                        std::string_view page);

}  // namespace ronde::metrics
