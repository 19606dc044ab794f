// How `ronde doctor --job` reaches a rank: the name of its abstract Unix socket, and the requests.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bindings/runtime/diagnosis/reply_socket.h"

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

/// Listens under an abstract name. Only this user gets replies. Errors: kUnavailable.
Result<ReplySocket> open_diagnostics(const std::string& name);

/// Replies to one of the two requests with what `make` gives for it, and hangs up on others. Input
/// is not parsed, but compared.
ReplySocket::Answer to_requests(ReplySocket::Answer make);

}  // namespace ronde::diagnosis
