// The socket at which a rank answers `ronde doctor --job`: an abstract Unix socket of this host.
// Only this user gets an answer. Input is not parsed, but compared with two fixed requests. Clients
// that come in crowds wait.
#pragma once

#include <poll.h>

#include <array>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde::diagnosis {

/// Asks for a dump (timeline/dump.h). The connection is closed after the answer.
inline constexpr std::string_view kDiagnosticsRequest = "ronde-doctor-1\r\n";
/// Asks for a dump without stacks and operations, which costs the rank next to nothing.
inline constexpr std::string_view kProbeRequest = "ronde-probe--1\r\n";
static_assert(kProbeRequest.size() == kDiagnosticsRequest.size());
/// The beginning of these sockets' names, after the zero byte.
inline constexpr std::string_view kDiagnosticsPrefix = "ronde-doctor/";

/// The address of a rank's socket.
struct DiagnosticsAddress {
  int pid = 0;
  int number = 0;  ///< Tells the runtimes of one process apart.
  int rank = 0;
  int size = 1;
  std::string job;  ///< Its first 40 bytes; others than letters, digits and -_. become "_".

  /// "ronde-doctor/PID/NUMBER/RANK/SIZE/JOB".
  [[nodiscard]] std::string text() const;
  /// Reads text() back; nothing where it is another name.
  static std::optional<DiagnosticsAddress> parse(std::string_view text);
};

/// Listens and answers. Threads: one.
class DiagnosticsSocket {
 public:
  /// Listens. Errors: kUnavailable.
  static Result<DiagnosticsSocket> open(const DiagnosticsAddress& name) {
    return open(name.text());
  }
  /// Listens under another abstract name.
  static Result<DiagnosticsSocket> open(const std::string& name);

  /// Appends what to poll for.
  void gather(std::vector<pollfd>& into) const;
  /// When turn() has something to do at the latest, whatever poll() says.
  [[nodiscard]] TimePoint next_turn() const;
  /// The answer to one of the requests.
  using Answer = std::function<std::shared_ptr<const std::string>(std::string_view request)>;
  /// Accepts clients, reads their requests and answers with what `make` gives. Blocks: never.
  void turn(TimePoint time, const Answer& make);

 private:
  struct Client {
    FileDescriptor fd;
    TimePoint deadline;
    std::array<char, kDiagnosticsRequest.size()> request{};
    std::size_t received = 0;
    [[nodiscard]] std::string_view text() const { return {request.data(), received}; }
    std::shared_ptr<const std::string> reply;  // null until the request is complete
    std::size_t sent = 0;
  };

  explicit DiagnosticsSocket(FileDescriptor listener) : listener_(std::move(listener)) {}
  void accept(TimePoint time);
  void make_room();
  static bool receive(Client& client);
  static bool answer(Client& client);

  FileDescriptor listener_;
  std::list<Client> clients_;
  TimePoint accept_again_{};  // no client is accepted before
};

}  // namespace ronde::diagnosis
