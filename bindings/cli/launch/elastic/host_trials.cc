#include "bindings/cli/launch/elastic/host_trials.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "bindings/cli/launch/reach_test.h"

namespace ronde {
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
  const std::string missed = fmt::format("{}", fmt::join(trial.missed, ", "));
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
  late->missed.push_back(fmt::format("{} did not answer", fmt::join(late->awaited, ", ")));
  end(*late);
}

}  // namespace ronde
