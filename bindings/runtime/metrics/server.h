// Serves one page by HTTP from a thread of its own, to few clients at a time.
#pragma once

#include <poll.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bindings/runtime/diagnosis/service_thread.h"
#include "core/base/clock.h"
#include "core/base/os/file_descriptor.h"
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

struct ServerOptions {
  std::string address = "127.0.0.1";  ///< IPv4 or IPv6, as a number.
  int port = 0;
  std::function<std::string()> page;  ///< Called by the server's thread; must not block.
};

/// At most 16 clients are served at a time, the oldest making room, each for 5 s at most; the
/// thread has niceness 10. No other thread waits for clients.
/// Threads: construction and destruction in one.
class Server {
 public:
  /// Listens, and starts the thread.
  /// Errors: kInvalidArgument where the address is none; kUnavailable naming address and port.
  static Result<std::unique_ptr<Server>> start(ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

 private:
  struct Client {
    FileDescriptor fd;
    TimePoint deadline;
    std::string request = {};
    std::string answer = {};
    std::size_t written = 0;
    bool answered = false;  ///< All is written: only the client's own end is awaited.
  };

  Server(ServerOptions options, FileDescriptor listener);
  void run();
  void wait();
  void turn();
  void let_in();
  bool serve(Client& client);
  bool read_request(Client& client);
  bool write_answer(Client& client);
  static bool drain(Client& client);
  const std::string& page();

  const ServerOptions options_;
  const FileDescriptor listener_;
  diagnosis::Waker waker_;
  // Its thread only.
  std::vector<Client> clients_;
  TimePoint open_again_{};  // after a crowd, or without descriptors
  std::string page_;
  TimePoint page_made_{};
  std::atomic<bool> stop_{false};
  std::thread thread_;  // last
};

}  // namespace ronde::metrics
