#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include "bindings/cli/doctor.h"
#include "bindings/runtime/diagnosis/rank_query.h"
#include "core/base/json.h"
#include "core/base/os/endpoint.h"
#include "core/base/os/file_descriptor.h"

namespace ronde {
namespace {

constexpr std::size_t kMostAnswerBytes = std::size_t{64} << 20;
constexpr std::size_t kJobLetters = 16;  // of an elastic job's id, before the epoch

/// Waits until the socket has something to read. False at the deadline.
bool wait_for_input(int fd, TimePoint deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now()).count();
  pollfd polled{fd, POLLIN, 0};
  return left > 0 && ::poll(&polled, 1, static_cast<int>(left)) > 0;
}

std::string read_all(int fd, TimePoint deadline) {
  std::string text;
  std::array<char, 65536> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  while (text.size() < kMostAnswerBytes && wait_for_input(fd, deadline)) {
    const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text;
}

std::string describe_worker(const Json& worker) {
  const int rank = worker.at("rank");
  return fmt::format("worker {}, pid {} on {}: {}{}{}\n", worker.at("worker").get<int>(),
                     worker.at("pid").get<int>(), worker.at("host").get<std::string>(),
                     worker.at("state").get<std::string>(),
                     rank >= 0 ? fmt::format(", rank {}", rank) : "",
                     worker.at("leaving").get<bool>() ? ", was asked to leave" : "");
}

std::string describe_gone(const Json& gone) {
  const auto why = gone.at("why").get<std::string>();
  return fmt::format("worker {}: is gone since epoch {}{}{}\n", gone.at("worker").get<int>(),
                     gone.at("epoch").get<int>(), why.empty() ? "" : ": ", why);
}

std::string describe_status(const Json& status) {
  const int epoch = status.at("epoch");
  std::string text = fmt::format("job {}: elastic, epoch {}{}; its launcher: pid {}\n",
                                 status.at("job").get<std::string>(), epoch,
                                 status.at("open").get<bool>() ? ""
                                 : epoch == 0                  ? " (none yet)"
                                                               : " (it has ended)",
                                 status.at("launcher").get<int>());
  if (const auto awaits = status.at("awaits").get<std::string>(); !awaits.empty()) {
    text += fmt::format("the launcher waits for the next epoch: {}\n", awaits);
  }
  for (const Json& worker : status.at("workers")) text += describe_worker(worker);
  for (const Json& gone : status.at("gone")) text += describe_gone(gone);
  return text;
}

}  // namespace

std::vector<LauncherAddress> find_launchers() {
  std::vector<LauncherAddress> launchers;
  for (const std::string& name : diagnosis::listening_names()) {
    if (auto launcher = LauncherAddress::parse(name)) launchers.push_back(std::move(*launcher));
  }
  std::ranges::sort(launchers, {}, &LauncherAddress::job);
  return launchers;
}

std::optional<LauncherAnswer> ask_launcher(const LauncherAddress& launcher, TimePoint deadline) {
  const Endpoint endpoint = abstract_endpoint(launcher.text());
  const FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid() || ::connect(fd.get(), endpoint.raw(), endpoint.length) != 0) return std::nullopt;
  if (!is_same_user(fd.get())) return std::nullopt;
  const std::string_view request = diagnosis::kDiagnosticsRequest;
  if (::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) != ssize_t(request.size())) {
    return std::nullopt;
  }
  return read_status(read_all(fd.get(), deadline));
}

std::optional<LauncherAnswer> read_status(const std::string& text) try {
  const Json status = parse_json_or_throw(text);
  LauncherAnswer answer;
  answer.text = describe_status(status);
  const int epoch = status.at("epoch");
  if (epoch > 0) answer.job = fmt::format("{}-{}", status.at("job").get<std::string>(), epoch);
  for (const Json& worker : status.at("workers")) {
    answer.workers[worker.at("pid")] = worker.at("worker");
  }
  return answer;
} catch (const Json::exception&) {
  return std::nullopt;
}

int epoch_of(const std::string& job_id) {
  if (job_id.size() < kJobLetters + 2 || job_id[kJobLetters] != '-') return 0;
  const auto is_letter = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  const char* const number = job_id.data() + kJobLetters + 1;
  const char* const end = job_id.data() + job_id.size();
  int epoch = 0;
  const auto [stop, error] = std::from_chars(number, end, epoch);
  const bool plain = std::all_of(job_id.begin(), job_id.begin() + kJobLetters, is_letter);
  return plain && error == std::errc() && stop == end ? epoch : 0;
}

std::string job_of_epoch(const std::string& job_id) {
  return epoch_of(job_id) > 0 ? job_id.substr(0, kJobLetters) : job_id;
}

}  // namespace ronde
