#include "bindings/runtime/metrics/server.h"

#include <doctest/doctest.h>

namespace ronde::metrics {
namespace {

HttpStatus status_of(std::string_view text) { return judge_request(text).status; }

}  // namespace

TEST_CASE("judge_request: GET and HEAD of /metrics are served, in every spelling of it") {
  CHECK(status_of("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n") == HttpStatus::kOk);
  CHECK(status_of("GET /metrics?a=b HTTP/1.0\r\n\r\n") == HttpStatus::kOk);
  CHECK(status_of("GET http://a:1/metrics HTTP/1.1\n\n") == HttpStatus::kOk);
  const HttpRequest head = judge_request("HEAD /metrics HTTP/1.1\r\n\r\n");
  CHECK(head.status == HttpStatus::kOk);
  CHECK(head.head);
  CHECK(http_answer(head, "t", "page").ends_with("\r\n\r\n"));
}

TEST_CASE("judge_request: what is not whole waits for more, but not for ever more") {
  CHECK(status_of("") == HttpStatus::kIncomplete);
  CHECK(status_of("GET /metrics HTTP/1.1\r\n") == HttpStatus::kIncomplete);
  CHECK(status_of(std::string(kMostRequestBytes, 'a')) == HttpStatus::kTooLarge);
  CHECK(status_of("GET /metrics HTTP/1.1\r\nA: " + std::string(kMostRequestBytes, 'a')) ==
        HttpStatus::kTooLarge);
}

TEST_CASE("judge_request: everything else is refused by the status that HTTP has for it") {
  CHECK(status_of("GET / HTTP/1.1\r\n\r\n") == HttpStatus::kNotFound);
  CHECK(status_of("GET /metricsx HTTP/1.1\r\n\r\n") == HttpStatus::kNotFound);
  CHECK(status_of("GET http://a HTTP/1.1\r\n\r\n") == HttpStatus::kNotFound);
  CHECK(status_of("POST /metrics HTTP/1.1\r\n\r\n") == HttpStatus::kMethodNotAllowed);
  CHECK(status_of("GET /metrics HTTP/2\r\n\r\n") == HttpStatus::kVersion);
  for (const std::string_view bad :
       {"\r\n", "GET\r\n", "GET /metrics\r\n", "GET  HTTP/1.1\r\n", "G\x01T /metrics HTTP/1.1\r\n",
        "GET /a b HTTP/1.1\r\n", "GET /metrics SMTP\r\n"}) {
    CAPTURE(bad);
    CHECK(status_of(bad) == HttpStatus::kBadRequest);
  }
}

TEST_CASE("http_answer: a refusal says what is there, and a wrong method what is allowed") {
  const std::string answer = http_answer({HttpStatus::kMethodNotAllowed}, "t", "page");
  CHECK(answer.starts_with("HTTP/1.1 405 Method Not Allowed\r\n"));
  CHECK(answer.find("Allow: GET, HEAD\r\n") != std::string::npos);
  CHECK(answer.find("page") == std::string::npos);
}

}  // namespace ronde::metrics
