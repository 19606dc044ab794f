#include "bindings/cli/launch/reach_test.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>
#include <utility>

#include "bindings/cli/launch/this_host.h"
#include "core/base/join_text.h"
#include "core/base/os/endpoint.h"

namespace ronde {
namespace {

constexpr int kBacklog = 1024;

std::string text_of(int error) { return std::generic_category().message(error); }

FileDescriptor tcp_socket(const Endpoint& endpoint) {
  return FileDescriptor(::socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// Of "10.0.0.1:4000" or "[::1]:4000".
Result<Endpoint> endpoint_of(const std::string& place) {
  const std::size_t colon = place.rfind(':');
  const Status unfit(Code::kInvalidArgument, "no address and port");
  if (colon == std::string::npos) return unfit;
  std::uint16_t port = 0;
  const char* const end = place.data() + place.size();
  const auto [stop, error] = std::from_chars(place.data() + colon + 1, end, port);
  if (error != std::errc() || stop != end) return unfit;
  std::string host = place.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  RONDE_ASSIGN_OR_RETURN(const Endpoint endpoint, numeric_host(host));
  return endpoint.with_port(port);
}

}  // namespace

Result<int> ReachTest::listen(const std::string& address) {
  RONDE_ASSIGN_OR_RETURN(const Endpoint host, numeric_host(address));
  RONDE_ASSIGN_OR_RETURN(const int port, free_port(address));
  const Endpoint endpoint = host.with_port(static_cast<std::uint16_t>(port));
  listener_ = tcp_socket(endpoint);
  const bool listens = listener_.valid() &&
                       ::bind(listener_.get(), endpoint.raw(), endpoint.length) == 0 &&
                       ::listen(listener_.get(), kBacklog) == 0;
  if (!listens) return errno_status("cannot listen on " + address);
  listens_until_ = now() + 2 * kLimit;
  return port;
}

void ReachTest::connect(const ReachMessage& question) {
  attempts_.clear();
  answer_ = {question.trial, {}};
  answer_at_ = now() + kLimit;
  for (const std::string& place : question.places) begin(place);
  answer_if_done();
}

void ReachTest::begin(const std::string& place) {
  const auto endpoint = endpoint_of(place);
  if (!endpoint.ok()) return miss(place, endpoint.status().message());
  Attempt attempt{place, tcp_socket(*endpoint)};
  if (!attempt.socket.valid()) return miss(place, text_of(errno));
  if (::connect(attempt.socket.get(), endpoint->raw(), endpoint->length) == 0) return;
  if (errno != EINPROGRESS) return miss(place, text_of(errno));
  attempts_.push_back(std::move(attempt));
}

void ReachTest::miss(const std::string& place, const std::string& why) {
  answer_.missed.push_back(fmt::format("{} ({})", place, why));
}

void ReachTest::watch(PollSet& set) {
  attempts_.remove_if([](const Attempt& attempt) { return !attempt.socket.valid(); });
  for (Attempt& attempt : attempts_) {
    set.add(attempt.socket.get(), POLLOUT, [this, &attempt] { end(attempt); });
  }
}

void ReachTest::end(Attempt& attempt) {
  int error = 0;
  socklen_t size = sizeof(error);
  ::getsockopt(attempt.socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) miss(attempt.place, text_of(error));
  attempt.socket.reset();
  answer_if_done();
}

void ReachTest::answer_if_done() {
  for (const Attempt& attempt : attempts_) {
    if (attempt.socket.valid()) return;
  }
  answer_at_ = kForever;
  send_(encode(answer_));
}

TimePoint ReachTest::deadline() const noexcept { return std::min(listens_until_, answer_at_); }

void ReachTest::on_time(TimePoint time) {
  if (time >= listens_until_) {
    listener_.reset();
    listens_until_ = kForever;
  }
  if (time < answer_at_) return;
  for (Attempt& attempt : attempts_) {
    if (!attempt.socket.valid()) continue;
    miss(attempt.place, fmt::format("no answer within {} s", kLimit.count()));
    attempt.socket.reset();
  }
  answer_if_done();
}

namespace {

constexpr std::chrono::seconds kAnswerTime = 2 * ReachTest::kLimit;

}  // namespace

void HostTrials::begin(const elastic::TryHost& command) {
  Trial& trial = trials_.emplace_back();
  trial.number = ++last_number_;
  trial.host = command.host;
  trial.deadline = now() + args_.start_timeout + kAnswerTime;
  trial.awaited.insert(command.others.begin(), command.others.end());
  trial.awaited.insert(command.host);
  args_.send(command.host, encode(ListenMessage{trial.number, args_.interface, command.others}));
  for (const std::string& other : command.others) {
    args_.send(other, encode(ListenMessage{trial.number, args_.interface, {command.host}}));
  }
}

HostTrials::Trial* HostTrials::find(int number) {
  const auto trial = std::ranges::find(trials_, number, &Trial::number);
  return trial == trials_.end() ? nullptr : &*trial;
}

/// A host that cannot listen has no place, so the other hosts do not try it.
void HostTrials::on_listening(const std::string& host, const ListeningMessage& answer) {
  Trial* const trial = find(answer.trial);
  if (trial == nullptr || trial->connects || trial->awaited.erase(host) == 0) return;
  if (!answer.place.empty()) trial->places.emplace(host, answer.place);
  go_on(*trial);
}

void HostTrials::on_reached(const std::string& host, const ReachedMessage& answer) {
  Trial* const trial = find(answer.trial);
  if (trial == nullptr || !trial->connects || trial->awaited.erase(host) == 0) return;
  for (const std::string& place : answer.missed) {
    trial->missed.push_back(fmt::format("{} does not reach {}", host, place));
  }
  go_on(*trial);
}

void HostTrials::on_host_lost(const std::string& host) {
  std::erase_if(trials_, [&](const Trial& trial) { return trial.host == host; });
  std::vector<int> numbers;
  for (const Trial& trial : trials_) numbers.push_back(trial.number);
  for (const int number : numbers) {
    Trial* const trial = find(number);
    if (trial == nullptr) continue;
    trial->places.erase(host);
    if (trial->awaited.erase(host) > 0) go_on(*trial);
  }
}

void HostTrials::go_on(Trial& trial) {
  if (!trial.awaited.empty()) return;
  if (!trial.connects) connect(trial);
  if (trial.awaited.empty()) end(trial);
}

/// The host connects to the others, and they to it.
void HostTrials::connect(Trial& trial) {
  trial.connects = true;
  trial.deadline = now() + kAnswerTime;
  const auto own = trial.places.extract(trial.host);
  std::vector<std::string> others;
  for (const auto& [host, place] : trial.places) {
    others.push_back(place);
    if (!own.empty()) ask(trial, host, {own.mapped()});
  }
  if (!others.empty()) ask(trial, trial.host, std::move(others));
}

void HostTrials::ask(Trial& trial, const std::string& host, std::vector<std::string> places) {
  trial.awaited.insert(host);
  args_.send(host, encode(ReachMessage{trial.number, std::move(places)}));
}

void HostTrials::end(const Trial& trial) {
  const std::string host = trial.host;
  const std::string missed = join_text(trial.missed, ", ");
  std::erase_if(trials_, [&](const Trial& each) { return each.number == trial.number; });
  args_.on_end(host, missed);
}

TimePoint HostTrials::deadline() const noexcept {
  TimePoint next = kForever;
  for (const Trial& trial : trials_) next = std::min(next, trial.deadline);
  return next;
}

void HostTrials::on_time(TimePoint time) {
  const auto late =
      std::ranges::find_if(trials_, [&](const Trial& trial) { return time >= trial.deadline; });
  if (late == trials_.end()) return;
  late->missed.push_back(fmt::format("{} did not answer", join_text(late->awaited, ", ")));
  end(*late);
}

}  // namespace ronde
