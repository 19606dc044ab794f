// A socket that gives each client one reply: dumps of a rank, metrics, the state of an elastic job.
#pragma once

#include <poll.h>

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/runtime/diagnosis/service_thread.h"
#include "core/base/clock.h"
#include "core/base/os/endpoint.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde::diagnosis {

/// Serves at most 16 clients at a time, each for 5 s at most. The oldest one makes room, those
/// that are done or without a request first. Clients that come in crowds wait. At a Unix socket
/// only this user's are served. Threads: one.
class ReplySocket {
 public:
  /// Listens. Errors: kUnavailable, beginning with `failure`.
  static Result<ReplySocket> open(const Endpoint& at, const std::string& failure);

  /// Appends what to poll for.
  void gather(std::vector<pollfd>& into) const;
  /// When turn() has something to do at the latest, whatever poll() says.
  [[nodiscard]] TimePoint next_turn() const;
  using Reply = std::shared_ptr<const std::string>;
  /// The reply to what a client has sent so far: null while more has to come, empty to hang up.
  /// It limits how much comes.
  using Answer = std::function<Reply(std::string_view sent)>;
  /// Accepts clients, reads their requests and sends the replies. Blocks: never.
  void turn(TimePoint time, const Answer& answer);

 private:
  struct Client {
    FileDescriptor fd;
    TimePoint deadline;
    std::string request = {};
    Reply reply = nullptr;  // null until the request is complete
    std::size_t sent = 0;

    [[nodiscard]] bool sends() const { return reply && sent < reply->size(); }
    /// Clients that are done make room first, then those without a request.
    [[nodiscard]] int claim() const { return !reply ? 1 : sends() ? 2 : 0; }
  };

  ReplySocket(FileDescriptor listener, bool own_user)
      : listener_(std::move(listener)), own_user_(own_user) {}
  void accept(TimePoint time);
  static bool serve(Client& client, const Answer& answer);
  static bool receive(Client& client);
  static bool send(Client& client);

  FileDescriptor listener_;
  bool own_user_;
  std::list<Client> clients_;
  TimePoint accept_again_{};  // no client is accepted before
};

/// Blocks until `waker` is woken, `socket` (null: none) has something to do, or `until`.
void wait_for(const Waker& waker, const ReplySocket* socket, TimePoint until);

}  // namespace ronde::diagnosis
