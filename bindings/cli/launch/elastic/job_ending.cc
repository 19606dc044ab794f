#include "bindings/cli/launch/elastic/job_ending.h"

#include <fmt/format.h>
#include <signal.h>

#include <utility>

#include "bindings/cli/launch/process.h"

namespace ronde {
namespace {

/// Time for a worker that leaves to save its state, once the job has been asked to end.
constexpr std::chrono::seconds kLeavingTime{30};

}  // namespace

void JobEnding::begin() {
  begun_ = true;
  hooks_.on_stop();
}

void JobEnding::stop(int signal) {
  if (exit_status_ == 0) {
    exit_status_ = 128 + signal;
    cause_ = "the job was asked to end by " + signal_text(signal);
  }
  begin();
  agents_.signal_all(signal == SIGPIPE ? SIGTERM : signal);
  schedule_.on_asked(now());
}

void JobEnding::insist(int signal) {
  schedule_.hurry(now());
  stop(signal);
}

void JobEnding::fail(int exit_status, const std::string& text) {
  if (begun_) return;
  begin();
  cause_ = "the job has failed: " + text;
  options_.call_folder.write_failure(text);
  console_.say_after_output(cause_);
  exit_status_ = exit_status;
  schedule_.terminate_at(now() + options_.failure_delay);
}

void JobEnding::finish(int exit_status) {
  if (std::exchange(finished_, true)) return;
  if (!begun_) exit_status_ = exit_status;
  begin();
  schedule_.clear();
  agents_.retire_all();
}

void JobEnding::sum_up() {
  if (exit_status_ == 0) return;
  const std::string why = cause_.empty() ? "" : "; " + cause_;
  console_.say_after_output(fmt::format("exit status {}{}", exit_status_, why));
}

void JobEnding::let_a_worker_save() { schedule_.allow_until(now() + kLeavingTime); }

void JobEnding::on_time(TimePoint time) {
  while (const auto step = schedule_.due(time)) {
    if (*step == EndSchedule::Step::kTerminate) agents_.signal_all(SIGTERM);
    if (*step == EndSchedule::Step::kKill) agents_.signal_all(SIGKILL);
    if (*step == EndSchedule::Step::kGiveUp) give_up();
  }
}

void JobEnding::give_up() {
  agents_.kill_all();
  console_.abandon_stuck();
  hooks_.on_give_up();
}

}  // namespace ronde
