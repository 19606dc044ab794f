// Serves one page by HTTP from a thread of its own, to few clients at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "bindings/runtime/diagnosis/reply_socket.h"
#include "bindings/runtime/diagnosis/service_thread.h"
#include "core/base/clock.h"
#include "core/base/status.h"

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

/// Serves the page, as ReplySocket serves clients, in a thread with niceness 10.
/// Threads: construction and destruction in one.
class Server {
 public:
  /// Makes the page in the server's thread; must not block.
  using MakePage = std::function<std::string()>;

  /// Listens, and starts the thread. `address`: IPv4 or IPv6, as a number.
  /// Errors: kInvalidArgument where the address is none; kUnavailable naming address and port.
  static Result<std::unique_ptr<Server>> start(const std::string& address, int port, MakePage make);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

 private:
  Server(diagnosis::ReplySocket socket, MakePage make)
      : make_(std::move(make)), socket_(std::move(socket)) {}
  void run();
  diagnosis::ReplySocket::Reply answer(std::string_view sent);
  const std::string& page();

  const MakePage make_;
  diagnosis::Waker waker_;
  // Its thread only.
  diagnosis::ReplySocket socket_;
  std::string page_;
  TimePoint page_made_{};
  std::atomic<bool> stop_{false};
  std::thread thread_;  // last
};

}  // namespace ronde::metrics
