#include "bindings/cli/launch/elastic/status_socket.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <memory>
#include <utility>
#include <vector>

namespace ronde {
namespace {

constexpr std::string_view kPrefix = "ronde-elastic/";

}  // namespace

std::string LauncherAddress::text() const { return fmt::format("{}{}/{}", kPrefix, pid, job); }

std::optional<LauncherAddress> LauncherAddress::parse(std::string_view text) {
  if (!text.starts_with(kPrefix)) return std::nullopt;
  text.remove_prefix(kPrefix.size());
  LauncherAddress address;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), address.pid);
  const auto used = static_cast<std::size_t>(end - text.data());
  if (error != std::errc() || used >= text.size() || text[used] != '/') return std::nullopt;
  address.job = text.substr(used + 1);
  if (address.pid < 1 || address.job.find('/') != std::string::npos) return std::nullopt;
  return address;
}

bool LauncherAddress::owns(std::string_view job_id) const {
  return job_id.size() > job.size() && job_id.starts_with(job) && job_id[job.size()] == '-';
}

StatusSocket::StatusSocket(const JobHistory& history) : history_(history) {
  auto socket = diagnosis::open_diagnostics(LauncherAddress{::getpid(), history.job()}.text());
  if (socket.ok()) socket_.emplace(std::move(socket).value());
}

/// on_time() is called after each wait.
void StatusSocket::watch(PollSet& set) const {
  if (!socket_) return;
  std::vector<pollfd> polled;
  socket_->gather(polled);
  for (const pollfd& one : polled) set.add(one.fd, one.events, [] {});
}

TimePoint StatusSocket::deadline() const { return socket_ ? socket_->next_turn() : kForever; }

void StatusSocket::on_time(TimePoint time) {
  if (!socket_) return;
  socket_->turn(time, diagnosis::to_requests([this](std::string_view) {
                  return std::make_shared<const std::string>(history_.status());
                }));
}

}  // namespace ronde
