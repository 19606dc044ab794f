#include "bindings/cli/launch/elastic/job_hosts.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "bindings/cli/launch/process.h"
#include "core/base/join_text.h"

namespace ronde {

std::string hosts_text(const std::vector<HostSlots>& hosts) {
  std::vector<std::string> names;
  names.reserve(hosts.size());
  for (const HostSlots& host : hosts) names.push_back(fmt::format("{}:{}", host.name, host.slots));
  return names.empty() ? "none" : join_text(names, ", ");
}

JobHosts::Update JobHosts::set(std::vector<HostSlots> hosts) {
  const bool same = std::exchange(hosts_, std::move(hosts)) == hosts_;
  if (started_) return {!same, same ? "" : "the hosts are now " + hosts_text(hosts_)};
  const int total = total_slots(hosts_);
  started_ = total >= start_slots_;
  if (started_) return {true, ""};
  if (same && total > 0) return {};
  return {false, fmt::format("waiting for {} slots to start: the hosts have {} ({})", start_slots_,
                             total, hosts_text(hosts_))};
}

int JobHosts::slots(const std::string& name) const {
  const auto host = std::ranges::find(hosts_, name, &HostSlots::name);
  return host == hosts_.end() ? 0 : host->slots;
}

namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;

/// The last line that is not empty.
std::string last_line(std::string_view text) {
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  if (end == text.npos) return {};
  text = text.substr(0, end + 1);
  return std::string(text.substr(text.find_last_of("\r\n") + 1));
}

}  // namespace

HostDiscovery::HostDiscovery(DiscoverySpec spec, Handlers handlers)
    : spec_(std::move(spec)), handlers_(std::move(handlers)) {
  if (!spec_.command.empty()) next_start_ = now();
}

void HostDiscovery::watch(PollSet& set) {
  for (Stream* const stream : {&output_, &error_}) {
    set.add(stream->fd.get(), POLLIN, [this, stream] { read(*stream); });
  }
}

TimePoint HostDiscovery::deadline() const noexcept { return std::min(next_start_, kill_time_); }

void HostDiscovery::on_time(TimePoint time) {
  if (time >= kill_time_) {
    kill_time_ = kForever;
    too_long_ = true;
    ::kill(-pid_, SIGKILL);
  }
  if (time >= next_start_) start(time);
}

void HostDiscovery::start(TimePoint time) {
  next_start_ = time + spec_.interval;
  auto output = make_pipe();
  auto error = make_pipe();
  if (!output.ok() || !error.ok()) return complain("too many open files");
  const StartedChild child = start_child({.command = spec_.command,
                                          .death_signal = SIGKILL,
                                          .output = output->write.get(),
                                          .error = error->write.get()});
  if (child.pid < 0) return complain(child.failure.text);
  pid_ = child.pid;
  output_ = {std::move(output->read), {}};
  error_ = {std::move(error->read), {}};
  for (const Stream* const stream : {&output_, &error_}) set_nonblocking(stream->fd.get());
  too_long_ = false;
  kill_time_ = time + spec_.time_limit;
  next_start_ = kForever;  // the end of this run sets it
}

void HostDiscovery::read(Stream& stream) {
  if (read_some(stream.fd.get(), stream.text) == ReadState::kEnd) stream.fd.reset();
  if (stream.text.size() > kMostBytes) kill_time_ = now();
}

void HostDiscovery::reap() {
  int wait_status = 0;
  if (pid_ > 0 && ::waitpid(pid_, &wait_status, WNOHANG) == pid_) end_run(wait_status);
}

void HostDiscovery::end_run(int wait_status) {
  for (Stream* const stream : {&output_, &error_}) {
    while (stream->fd.valid() && stream->text.size() <= kMostBytes &&
           read_some(stream->fd.get(), stream->text) == ReadState::kData) {
    }
    stream->fd.reset();
  }
  ::kill(-pid_, SIGKILL);  // processes that it left behind
  pid_ = -1;
  kill_time_ = kForever;
  next_start_ = now() + spec_.interval;
  if (too_long_) {
    return complain(fmt::format("did not end within {} s, or printed more than {} bytes",
                                spec_.time_limit.count() / 1000, kMostBytes));
  }
  if (wait_status != 0) {
    const std::string last = last_line(error_.text);
    return complain(describe_wait_status(wait_status) + (last.empty() ? "" : ": " + last));
  }
  auto hosts = spec_.parse(output_.text);
  if (!hosts.ok()) return complain(hosts.status().message());
  listed_ = true;
  if (std::exchange(failing_, false)) handlers_.say(spec_.name + " lists the hosts again");
  handlers_.on_hosts(std::move(hosts).value());
}

void HostDiscovery::complain(const std::string& why) {
  if (std::exchange(failing_, true)) return;
  handlers_.say(fmt::format("{}: {}; {}, and it is tried again", spec_.name, why,
                            listed_ ? "the hosts stay as they are" : "there are no hosts yet"));
}

void HostDiscovery::stop() noexcept {
  next_start_ = kill_time_ = kForever;
  if (pid_ <= 0) return;
  ::kill(-pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

}  // namespace ronde
