#include "bindings/descriptors/passed.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <charconv>
#include <utility>
#include <vector>

#include "core/base/os/endpoint.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/settings/config.h"

namespace ronde {
namespace {

using std::chrono::milliseconds;

/// Tells one open file from all others while somebody holds it: "DEVICE:INODE"; empty for none.
std::string identity_of(int fd) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return {};
  return fmt::format("{}:{}", facts.st_dev, facts.st_ino);
}

std::string entry_for(std::string_view variable, int fd) {
  return fmt::format("{}={}:", variable, fd);
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return number;
}

Status unavailable(const std::string& what, std::string_view why) {
  return {Code::kUnavailable,
          fmt::format("{} is closed in this process, and the launcher does not give it again: {}; "
                      "start the process on the launcher's host, as the same user, while the job "
                      "runs",
                      what, why)};
}

void set_limit(int socket, milliseconds limit) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(limit);
  const timeval time{seconds.count(), std::chrono::microseconds(limit - seconds).count()};
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    ::setsockopt(socket, SOL_SOCKET, option, &time, sizeof(time));
  }
}

/// `what`: for errors.
Result<FileDescriptor> ask(std::string_view name, const PassedRequest& request, milliseconds limit,
                           const std::string& what) {
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return errno_status("cannot make a socket for " + what);
  set_limit(socket.get(), limit);
  const Endpoint endpoint = abstract_endpoint(name);
  if (::connect(socket.get(), endpoint.raw(), endpoint.length) != 0) {
    return unavailable(what, errno_status("it cannot be reached").message());
  }
  if (!is_same_user(socket.get())) return unavailable(what, "it belongs to another user");
  const std::string text = request.text();
  if (::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) {
    return unavailable(what, errno_status("it cannot be asked").message());
  }
  FileMessage answer = receive_with_file(socket.get(), kMostPassedBytes);
  if (answer.file.valid()) return std::move(answer.file);
  return unavailable(what, answer.bytes.empty() ? "it does not answer" : answer.bytes);
}

}  // namespace

std::string describe_passed(std::string_view socket, int rank,
                            std::span<const PassedDescriptor> descriptors) {
  std::string text = fmt::format("{},{}", socket, rank);
  for (const auto& [variable, fd] : descriptors) {
    if (fd >= 0) text += fmt::format(",{}{}", entry_for(variable, fd), identity_of(fd));
  }
  return text;
}

Result<std::optional<FileDescriptor>> take_passed(std::string_view variable, int fd,
                                                  milliseconds limit) {
  const std::string text = process_environment()(kPassedVariable).value_or("");
  const std::vector<std::string_view> parts = split(text);
  const std::string start = entry_for(variable, fd);
  std::optional<std::string_view> identity;
  for (const std::string_view part : parts) {
    if (part.starts_with(start)) identity = part.substr(start.size());
  }
  const auto rank = parts.size() > 1 ? number_in(parts[1]) : std::nullopt;
  if (!identity || !rank) return std::optional<FileDescriptor>();
  if (identity_of(fd) == *identity) {
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    return std::optional(FileDescriptor(fd));
  }
  RONDE_ASSIGN_OR_RETURN(FileDescriptor file,
                         ask(parts[0], {*rank, std::string(variable)}, limit,
                             fmt::format("the descriptor {}={}", variable, fd)));
  return std::optional(std::move(file));
}

std::string PassedRequest::text() const { return fmt::format("{} {}", rank, variable); }

std::optional<PassedRequest> PassedRequest::parse(std::string_view text) {
  const std::size_t blank = text.find(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  const auto rank = number_in(text.substr(0, blank));
  if (!rank) return std::nullopt;
  return PassedRequest{*rank, std::string(text.substr(blank + 1))};
}

}  // namespace ronde
